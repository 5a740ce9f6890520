"""The largest batch whose memory fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

RESERVE_BYTES = 1_000_000_000
"""[B] Of a GPU's memory: CUDA's context, libraries' workspaces, what is fragmented."""
_GROWN, _STRIDE, _ABSURD = 1.5, 4, 1 << 40
"""Batches are made larger by the stride until memory has grown so much."""


def room(capacity_bytes: int) -> int:
    """[B] What a step may take of a GPU's memory."""
    return capacity_bytes - RESERVE_BYTES


def largest(
    needed: Callable[[int], int], begin: int, most: int, tries: int
) -> int | None:
    """The largest batch that needs no more than `most` bytes; None: there is no end.

    Memory is nearly affine in it: the size where a line says that it is full is tried,
    and so on, so many times.

    >>> largest(lambda batch: 1000 + 30 * batch, 1, 5000, 9)
    133
    """
    known = {begin: needed(begin)}
    size = begin
    # What does not depend on the batch may be the most at first.
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
    """Where a line through two sizes is full, between what fits and what does not."""
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
    """The two sizes whose memory is nearest to what there is, the smaller one first."""
    small, large = sorted(sorted(known, key=lambda size: abs(known[size] - most))[:2])
    return small, large
