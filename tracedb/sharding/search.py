"""Improve plans by moving, swapping and splitting shards while the step gets shorter.

Only the largest loads add to a step, so shards are always moved from a rank with one of
these. A move without gain may prepare a gain: of plans with equal time, the one with
more even ranks (by the sum of squares) is better.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tracedb.sharding.cuts import BACKWARD, FORWARD, INDEX, MEMORY, SENT
from tracedb.sharding.plans import lightest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from tracedb.sharding.cuts import Cuts, Numbers, Shards
    from tracedb.sharding.plans import Goal

_TIMED = (FORWARD, BACKWARD, SENT, INDEX)
_LEAST_EVENING = 1e-4
"""[1] Smallest improvement in evenness that counts, so that the search ends."""
_MOST_PAIRS = 1 << 20
"""Number of swaps that are evaluated at once."""


class Plan(NamedTuple):
    """Shards, their ranks, and the time [ns] that they add to a step."""

    time_ns: int
    shards: Shards
    rank: Numbers


def searched(start: Plan, cuts: Cuts, goal: Goal, *, may_split: bool) -> Plan:
    """Improve a plan that fits; the result is never worse.

    It does not depend on the order of shards or tables.
    """
    best = _improved(start.shards, start.rank, goal)
    while may_split:
        finer = [
            _improved(shards, rank, goal)
            for shards, rank in _split(best, cuts, goal)
            if goal.fits(shards, rank)
        ]
        better = min(finer, key=lambda plan: plan.time_ns, default=best)
        if better.time_ns >= best.time_ns:
            break
        best = better
    return best


def _split(best: Plan, cuts: Cuts, goal: Goal) -> list[tuple[Shards, Numbers]]:
    """Split the slowest table of the plan's slowest rank once more, in each way."""
    loads = goal.loads(best.shards, best.rank)
    slowest = int(np.argmax(loads[FORWARD] + loads[BACKWARD]))
    there = np.flatnonzero(best.rank == slowest)
    if not len(there):
        return []
    time = best.shards.time_ns[there]
    old = best.shards.cut[there[int(np.argmax(time))]]
    return [_with(best, cuts.shards([new]), goal, old) for new in cuts.finer(old)]


def _with(best: Plan, added: Shards, goal: Goal, old: object) -> tuple[Shards, Numbers]:
    """The plan with other shards of a table, each on the then lightest rank."""
    kept = np.flatnonzero([cut != old for cut in best.shards.cut])
    rest, rank = best.shards.take(kept), best.rank[kept]
    loads = goal.loads(rest, rank)
    time, memory = loads[FORWARD] + loads[BACKWARD], loads[MEMORY]
    new = []
    for own, needed in zip(added.time_ns, added.takes[MEMORY], strict=True):
        place = lightest(time, memory, needed, goal.limit_bytes)
        time[place] += own
        memory[place] += needed
        new.append(place)
    return rest.followed_by(added), np.append(rank, new).astype(np.int64)


def _improved(shards: Shards, rank: Numbers, goal: Goal) -> Plan:
    """A plan after all improving swaps, the best one first."""
    order = shards.by_content
    shards, rank = shards.take(order), rank[order]
    while True:
        loads = goal.loads(shards, rank)
        step = _best_step(shards, rank, loads, goal)
        if step is None:
            return Plan(int(goal.added_ns(loads.max(axis=1))), shards, rank)
        one, other, to = step
        if other < len(shards):
            rank[other] = rank[one]
        rank[one] = to


class _Pairs(NamedTuple):
    """Candidates for swaps: shards of ranks that bound the step, and all others.

    After the shards, each rank has an empty shard: a swap with it is a move.
    """

    takes: NDArray[np.int64]
    rank: Numbers


def _best_step(
    shards: Shards, rank: Numbers, loads: Numbers, goal: Goal
) -> tuple[int, int, int] | None:
    """The shard to move, the shard to swap it with, and its new rank."""
    nothing = np.zeros((len(shards.takes), goal.ranks), np.int64)
    pairs = _Pairs(
        np.hstack([shards.takes, nothing]), np.append(rank, np.arange(goal.ranks))
    )
    most = loads.max(axis=1)
    is_busiest = (loads == most[:, None])[list(_TIMED)] & (most[list(_TIMED)] > 0)[
        :, None
    ]
    movers = np.flatnonzero(is_busiest.any(axis=0)[rank])
    others = _most_of_others(loads[list(_TIMED)])
    found = (int(goal.added_ns(most)), -_LEAST_EVENING * _unevenness(loads))
    best = None
    at_once = max(_MOST_PAIRS // len(pairs.rank), 1)
    for first in range(0, len(movers), at_once):
        part = movers[first : first + at_once]
        time, evening = _after(part, pairs, loads, others, goal)
        fastest = np.flatnonzero(time == time.min())
        place = int(fastest[np.argmin(evening.ravel()[fastest])])
        one, other = divmod(place, len(pairs.rank))
        reached = (int(time[one, other]), float(evening[one, other]))
        if reached < found:
            found = reached
            best = (int(part[one]), other, int(pairs.rank[other]))
    return best


def _unevenness(loads: Numbers) -> float:
    return float(np.square((loads[FORWARD] + loads[BACKWARD]).astype(float)).sum())


def _after(
    movers: Numbers,
    pairs: _Pairs,
    loads: Numbers,
    others: Numbers,
    goal: Goal,
) -> tuple[Numbers, NDArray[np.float64]]:
    """The time and the evenness of ranks after each swap."""
    source, target = pairs.rank[movers][:, None], pairs.rank[None, :]
    gained = pairs.takes[:, None, :] - pairs.takes[:, movers][:, :, None]
    here, there = loads[:, source] + gained, loads[:, target] - gained
    timed = list(_TIMED)
    most = np.maximum(here, there)[timed]
    most = np.maximum(most, others[:, source, target])
    time = goal.added_ns(most)
    before = [_busy(loads[:, place]) for place in (source, target)]
    evening = _busy(here) ** 2 + _busy(there) ** 2 - before[0] ** 2 - before[1] ** 2
    is_allowed = source != target
    if goal.limit_bytes is not None:
        room = np.maximum(here[MEMORY], there[MEMORY]) <= goal.limit_bytes
        is_allowed = is_allowed & room
    return np.where(is_allowed, time, np.iinfo(np.int64).max), evening


def _busy(loads: Numbers) -> NDArray[np.float64]:
    found: NDArray[np.float64] = (loads[FORWARD] + loads[BACKWARD]).astype(float)
    return found


def _most_of_others(loads: Numbers) -> Numbers:
    """The largest load of all ranks except two, for each kind and each pair."""
    kinds, ranks = loads.shape
    found = np.zeros((kinds, ranks, ranks), np.int64)
    for kind in range(kinds):
        largest: Sequence[int] = np.argsort(-loads[kind], kind="stable")[:3].tolist()
        for rank in reversed(largest):
            is_other = np.arange(ranks) != rank
            found[kind][np.ix_(is_other, is_other)] = loads[kind, rank]
    return found
