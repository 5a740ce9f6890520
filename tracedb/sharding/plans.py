"""Plans by rules: the rank of each shard, and the total cost.

All numbers are integers, so sums do not depend on order, and equal those of
`question.sharding` to the nanosecond.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tracedb.sharding.cuts import BACKWARD, FORWARD, INDEX, MEMORY, SENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tracedb.sharding.cuts import Numbers, Shards

BALANCED = ("size", "lookups", "cost")
"""The weights by which shards are balanced."""


@dataclass(frozen=True)
class Exchange:
    """The time of an all-to-all, interpolated between predicted sizes."""

    message_bytes: NDArray[np.float64]
    taken_ns: NDArray[np.float64]

    def ns(self, size: Numbers) -> Numbers:
        """[ns] The time of messages, as in `question.sharding`."""
        last = max(len(self.message_bytes) - 2, 0)
        place = np.searchsorted(self.message_bytes, size, side="right") - 1
        place = np.minimum(place, last)
        wide = np.diff(self.message_bytes)[place]
        along = (size - self.message_bytes[place]) / wide
        rise = np.diff(self.taken_ns)[place]
        found: Numbers = np.floor(self.taken_ns[place] + along * rise + 0.5).astype(
            np.int64
        )
        return found


@dataclass(frozen=True)
class Goal:
    """The objective of plans: the time of the slowest ranks, and the memory limit."""

    ranks: int
    limit_bytes: int | None
    exchange: Exchange
    sends_indices: bool

    def loads(self, shards: Shards, rank: Numbers) -> Numbers:
        """The load of each rank: a row per cost, a column per rank."""
        found = np.zeros((len(shards.takes), self.ranks), np.int64)
        for row, takes in zip(found, shards.takes, strict=True):
            np.add.at(row, rank, takes)
        return found

    def added_ns(self, most: Numbers) -> Numbers:
        """[ns] The time that tables add to a step, given the largest load of each kind.

        Launches are left out, because their number is the same in all plans.
        """
        found: Numbers = most[FORWARD] + most[BACKWARD]
        found = found + 2 * self.exchange.ns(most[SENT])
        return found + self.exchange.ns(most[INDEX]) if self.sends_indices else found

    def time_ns(self, shards: Shards, rank: Numbers) -> int:
        """[ns] The time that a plan adds to a step."""
        return int(self.added_ns(self.loads(shards, rank).max(axis=1)))

    def fits(self, shards: Shards, rank: Numbers) -> bool:
        """Whether a plan fits into the memory of all ranks."""
        largest = int(self.loads(shards, rank)[MEMORY].max())
        return self.limit_bytes is None or largest <= self.limit_bytes


def plans(shards: Shards, goal: Goal) -> Iterator[tuple[str, Numbers]]:
    """The plans for shards by all rules, each with the rank of every shard."""
    yield "naive", np.arange(len(shards)) % goal.ranks
    weights = (shards.takes[MEMORY], shards.looked_up, shards.time_ns)
    for name, weight in zip(BALANCED, weights, strict=True):
        yield name, balanced(shards, weight, goal)


def balanced(shards: Shards, weight: Numbers, goal: Goal) -> Numbers:
    """Assign shards, heaviest first, to the lightest rank with enough memory.

    If none has enough, the rank with the most memory left is taken; such a plan is
    refused later.
    """
    content = shards.by_content
    order = content[np.argsort(-weight[content], kind="stable")]
    rank = np.zeros(len(shards), np.int64)
    load = np.zeros(goal.ranks, np.int64)
    memory = np.zeros(goal.ranks, np.int64)
    for shard in order:
        needed = shards.takes[MEMORY, shard]
        rank[shard] = lightest(load, memory, needed, goal.limit_bytes)
        load[rank[shard]] += weight[shard]
        memory[rank[shard]] += needed
    return rank


def lightest(
    load: Numbers, memory: Numbers, needed: np.int64, limit_bytes: int | None
) -> int:
    """The rank with the least load among those with enough memory, else most memory."""
    if limit_bytes is not None:
        has_room = memory + needed <= limit_bytes
        if not has_room.any():
            return int(np.argmin(memory))
        load = np.where(has_room, load, np.iinfo(np.int64).max)
    return int(np.argmin(load))
