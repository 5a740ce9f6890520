"""Which rows a model has not seen when it is scored: the rules of the splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from .rows import Rows

SEED = 0
_SHARE = 0.2
_LEAST_KINDS = 3


def random(rows: Rows) -> NDArray[np.bool_] | None:
    """A fifth of the shapes, at random."""
    return np.random.default_rng(SEED).random(len(rows)) < _SHARE


def shape(rows: Rows) -> NDArray[np.bool_] | None:
    """A fifth of the combinations of sizes that belong together, at random.

    A weight's n and k, a row's width; of collectives the middle number of ranks.
    """
    codes = rows.codes(rows.family.group)
    kinds, first, kind = np.unique(codes, return_index=True, return_inverse=True)
    if not rows.family.group or len(kinds) < _LEAST_KINDS:
        return None
    if rows.family.name == "collective":
        ranks = rows.shapes["ranks"]
        found: NDArray[np.bool_] = ranks == np.median(np.unique(ranks[first]))
        return found
    order = np.random.default_rng(SEED).permutation(len(kinds))
    return np.isin(kind, order[: max(1, round(_SHARE * len(kinds)))])


def largest(rows: Rows) -> NDArray[np.bool_] | None:
    """The fifth with the most FLOPs (of products), or the most bytes."""
    return rows.size > np.quantile(rows.size, 1 - _SHARE)


SPLITS: Mapping[str, Callable[[Rows], NDArray[np.bool_] | None]] = {
    "random": random,
    "shape": shape,
    "largest": largest,
}
"""Each says which rows to hold out; None where a group cannot be split so."""
