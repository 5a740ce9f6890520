"""Shards of tables with what they cost, and which tables are to be split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

FORWARD, BACKWARD, SENT, INDEX, MEMORY = range(5)
"""What a shard takes: ns, ns, B, B, B."""
WAYS = ("column", "row")
_COSTS = """
SELECT
    ordinal, way, parts, first_part, shard_count, looked_up,
    forward_ns, backward_ns, sent_bytes, index_bytes, memory_bytes
FROM prediction.shard_cost
ORDER BY ordinal, way, parts, first_part
"""


class Cut(NamedTuple):
    """How a table is split."""

    ordinal: int
    way: str = "none"
    parts: int = 1


class _Size(NamedTuple):
    """Shards of one size of a table."""

    first_part: int
    shard_count: int
    looked_up: int
    takes: tuple[int, ...]


@dataclass(frozen=True)
class Shards:
    """Shards, those of each table together: what each is, and takes."""

    cut: tuple[Cut, ...]
    part: Numbers
    looked_up: Numbers
    takes: Numbers
    """A row for each of what a shard takes, a column for each shard."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self.cut)

    @property
    def time_ns(self) -> Numbers:
        """[ns] Both directions of each shard."""
        found: Numbers = self.takes[FORWARD] + self.takes[BACKWARD]
        return found

    def take(self, chosen: Numbers) -> Shards:
        """Some of the shards, in their order."""
        cuts = tuple(self.cut[place] for place in chosen)
        return Shards(
            cuts, self.part[chosen], self.looked_up[chosen], self.takes[:, chosen]
        )

    def followed_by(self, other: Shards) -> Shards:
        """These shards and others behind them."""
        return Shards(
            self.cut + other.cut,
            np.append(self.part, other.part),
            np.append(self.looked_up, other.looked_up),
            np.hstack([self.takes, other.takes]),
        )

    @property
    def by_content(self) -> Numbers:
        """An order of the shards, the slowest first, that names have no part in."""
        keys = [*self.takes[::-1], self.looked_up, self.time_ns]
        return np.lexsort([-key for key in keys])


class Cuts:
    """All ways to split the tables, each with the shards that it makes."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Take them from the relations, where costs are there."""
        self._sizes: dict[Cut, list[_Size]] = {}
        for ordinal, way, parts, first, count, looked_up, *takes in connection.execute(
            _COSTS
        ).fetchall():
            size = _Size(first, count, looked_up, tuple(takes))
            self._sizes.setdefault(Cut(ordinal, way, parts), []).append(size)
        self._ways: dict[tuple[int, str], list[Cut]] = {}
        for cut in self._sizes:
            self._ways.setdefault((cut.ordinal, cut.way), []).append(cut)
        self.tables = [cut for cut in self._sizes if cut.way == "none"]

    def shards(self, cuts: Sequence[Cut]) -> Shards:
        """The shards that some cuts make."""
        rows = [
            (cut, size.first_part + place, size)
            for cut in cuts
            for size in self._sizes[cut]
            for place in range(size.shard_count)
        ]
        return Shards(
            tuple(cut for cut, _, _ in rows),
            np.array([part for _, part, _ in rows], np.int64),
            np.array([size.looked_up for _, _, size in rows], np.int64),
            np.array([size.takes for _, _, size in rows], np.int64).T,
        )

    def finer(self, cut: Cut) -> Iterator[Cut]:
        """The next finer splits of a cut's table."""
        for way in WAYS:
            if cut.way in ("none", way):
                more = self._ways.get((cut.ordinal, way), [])
                yield from [one for one in more if one.parts > cut.parts][:1]

    def chosen(self, way: str, ranks: int, limit: int | None) -> list[Cut]:
        """Each table as it is, or split one way: what is too large or slow for a rank.

        That is larger than the limit, or slower than all tables together take of each
        rank in the mean.
        """
        total = sum(self._slowest(table) for table in self.tables)
        mean = total / ranks
        return [self._fitting(table, way, mean, limit) for table in self.tables]

    def _fitting(self, table: Cut, way: str, mean_ns: float, limit: int | None) -> Cut:
        """The coarsest split of small and fast shards, else the fastest small ones."""
        options = [table, *self._ways.get((table.ordinal, way), [])]
        small = [
            one for one in options if limit is None or self._largest(one) <= limit
        ] or options[-1:]
        fast = [one for one in small if self._slowest(one) <= mean_ns]
        return fast[0] if fast else min(small, key=self._slowest)

    def _largest(self, cut: Cut) -> int:
        """[B] Of the largest shard."""
        return max(size.takes[MEMORY] for size in self._sizes[cut])

    def _slowest(self, cut: Cut) -> int:
        """[ns] Of the slowest shard."""
        times = (size.takes for size in self._sizes[cut])
        return max(takes[FORWARD] + takes[BACKWARD] for takes in times)
