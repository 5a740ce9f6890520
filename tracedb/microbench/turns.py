"""Alternate between sets of tensors, so that no call finds its data in a cache."""

from collections.abc import Callable, Sequence
from itertools import cycle

from .case import Case

_TURNED_BYTES = 16 * 2**20
"""[B] The total size of all sets, more than a core's caches."""
_MOST_TURNS = 64


def turns(case: Case) -> int:
    """The number of sets of tensors that a case alternates between."""
    return max(1, min(_TURNED_BYTES // max(case.memory_bytes, 1), _MOST_TURNS))


def in_turn(works: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """Combine several pieces of work into one, of which each call runs the next."""
    turn = cycle(works)

    def work() -> object:
        return next(turn)()

    return work
