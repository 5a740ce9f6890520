"""Shards of tables with their costs, and which tables to split."""

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
"""The rows of `Shards.takes`, in ns, ns, B, B and B."""
WAYS = ("column", "row")
_COSTS = """
SELECT
    ordinal, way, parts, first_part, shard_count, looked_up,
    forward_ns, backward_ns, sent_bytes, index_bytes, memory_bytes
FROM prediction.shard_cost
ORDER BY ordinal, way, parts, first_part
"""


class Cut(NamedTuple):
    """A split of a table."""

    ordinal: int
    way: str = "none"
    parts: int = 1


class _Size(NamedTuple):
    """The equal shards of a table."""

    first_part: int
    shard_count: int
    looked_up: int
    takes: tuple[int, ...]


@dataclass(frozen=True)
class Shards:
    """Shards with their costs; those of a table are adjacent."""

    cut: tuple[Cut, ...]
    part: Numbers
    looked_up: Numbers
    takes: Numbers
    """A row per cost, a column per shard."""

    def __len__(self) -> int:
        """The number of shards."""
        return len(self.cut)

    @property
    def time_ns(self) -> Numbers:
        """[ns] The forward and backward time of each shard."""
        found: Numbers = self.takes[FORWARD] + self.takes[BACKWARD]
        return found

    def take(self, chosen: Numbers) -> Shards:
        """The chosen shards, in order."""
        cuts = tuple(self.cut[place] for place in chosen)
        return Shards(
            cuts, self.part[chosen], self.looked_up[chosen], self.takes[:, chosen]
        )

    def followed_by(self, other: Shards) -> Shards:
        """These shards, followed by others."""
        return Shards(
            self.cut + other.cut,
            np.append(self.part, other.part),
            np.append(self.looked_up, other.looked_up),
            np.hstack([self.takes, other.takes]),
        )

    @property
    def by_content(self) -> Numbers:
        """An order of the shards, slowest first, that does not depend on names."""
        keys = [*self.takes[::-1], self.looked_up, self.time_ns]
        return np.lexsort([-key for key in keys])


class Cuts:
    """All splits of the tables, with their shards."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Read them from the relations, which must have the costs."""
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
        """The shards of some cuts."""
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
        """The cut of each table; those too large or slow for a rank are split one way.

        These are larger than the limit, or slower than the mean time per rank.
        """
        total = sum(self._slowest(table) for table in self.tables)
        mean = total / ranks
        return [self._fitting(table, way, mean, limit) for table in self.tables]

    def _fitting(self, table: Cut, way: str, mean_ns: float, limit: int | None) -> Cut:
        """The coarsest split with shards that fit and are fast, else the fastest."""
        options = [table, *self._ways.get((table.ordinal, way), [])]
        small = [
            one for one in options if limit is None or self._largest(one) <= limit
        ] or options[-1:]
        fast = [one for one in small if self._slowest(one) <= mean_ns]
        return fast[0] if fast else min(small, key=self._slowest)

    def _largest(self, cut: Cut) -> int:
        """[B] The size of the largest shard."""
        return max(size.takes[MEMORY] for size in self._sizes[cut])

    def _slowest(self, cut: Cut) -> int:
        """[ns] The time of the slowest shard."""
        times = (size.takes for size in self._sizes[cut])
        return max(takes[FORWARD] + takes[BACKWARD] for takes in times)
