"""Work that takes turns, so that no call finds in a cache what the one before left."""

from collections.abc import Callable, Sequence
from itertools import cycle

from .case import Case

_TURNED_BYTES = 16 * 2**20
"""What the tensors of all turns take: more than a core's own caches."""
_MOST_TURNS = 64


def turns(case: Case) -> int:
    """Say how many sets of tensors a case takes turns with."""
    return max(1, min(_TURNED_BYTES // max(case.memory_bytes, 1), _MOST_TURNS))


def in_turn(works: Sequence[Callable[[], object]]) -> Callable[[], object]:
    """Make one piece of work of several, of which each call does the next."""
    turn = cycle(works)

    def work() -> object:
        return next(turn)()

    return work
