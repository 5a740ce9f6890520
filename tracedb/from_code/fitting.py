"""Search for the largest batch size whose memory fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RESERVE_BYTES = 1_000_000_000
"""[B] GPU memory for CUDA's context, library workspaces and fragmentation."""
_GROWN, _STRIDE, _ABSURD = 1.5, 4, 1 << 40
"""The batch size is multiplied by the stride until memory has grown by the factor."""


def room(capacity_bytes: int) -> int:
    """[B] The part of a GPU's memory that a step may take."""
    return capacity_bytes - RESERVE_BYTES


def largest(
    needed: Callable[[int], int], begin: int, most: int, tries: int
) -> int | None:
    """The largest batch size that needs at most `most` bytes; None if unbounded.

    Memory is nearly affine in the batch size: at most `tries` times, the size at which
    a line through two known sizes reaches `most` is tried.

    >>> largest(lambda batch: 1000 + 30 * batch, 1, 5000, 9)
    133
    """
    known = {begin: needed(begin)}
    size = begin
    # At first, memory that does not depend on the batch size may dominate.
    while known[size] < _GROWN * known[begin] and known[size] <= most:
        size *= _STRIDE
        if size > _ABSURD:
            return None
        known[size] = needed(size)
    for _ in range(tries):
        guess = _guess(known, most)
        if guess is None:
            break
        known[guess] = needed(guess)
    return max((size for size, taken in known.items() if taken <= most), default=0)


def _guess(known: dict[int, int], most: int) -> int | None:
    """Where a line through two sizes reaches `most`, between known bounds."""
    small, large = _nearest(known, most)
    grown = known[large] - known[small]
    fits = max((size for size, taken in known.items() if taken <= most), default=0)
    over = min((size for size, taken in known.items() if taken > most), default=None)
    if grown <= 0 or (over is not None and over <= fits + 1):
        return None
    guess = small + (most - known[small]) * (large - small) // grown
    guess = max(guess, fits + 1)
    return guess if over is None else min(guess, over - 1)


def _nearest(known: dict[int, int], most: int) -> tuple[int, int]:
    """The two sizes whose memory is nearest to `most`, the smaller one first."""
    small, large = sorted(sorted(known, key=lambda size: abs(known[size] - most))[:2])
    return small, large
