"""How far apart harnesses are: models of one, asked for what another one measured.

A trace is another harness than what a model was trained on: clocks, caches, libraries
differ. Where the data have the same ops on the same hardware by two harnesses, each
pair of them says by how much.
"""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from .dtypes import ALIKE
from .families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .groups import Group
    from .model import Key
    from .predictor import Predictor

_HELD = 0.8
"""Of the kernels of another harness, how many lie within the error."""
_MOST_ROWS = 3_000
_LEAST_ROWS = 20
"""Fewer rows in the range of the other harness say nothing."""


def harness_errors(
    groups: Sequence[Group], predictors: Mapping[Key, Predictor]
) -> dict[str, float]:
    """The log error within which four of five kernels of another harness lie.

    By family: that of the pair that is farthest apart. A family that one harness alone
    measured has the largest error of all whose time is the GPU's own; 0 if there is
    none.
    """
    found: dict[str, float] = {}
    for one, other in permutations(groups, 2):
        if not are_alike(one.key, other.key):
            continue
        error = _error(predictors[one.key], other)
        if error is not None:
            family = one.key.family
            found[family] = max(found.get(family, 0.0), error)
    own = [error for name, error in found.items() if not FAMILIES[name].bandwidths]
    return {name: found.get(name, max(own, default=0.0)) for name in FAMILIES}


def are_alike(one: Key, other: Key) -> bool:
    """Whether two keys differ in the harness alone."""
    family = FAMILIES[one.family]
    same = ("hardware", "family", "measured")
    return (
        all(getattr(one, name) == getattr(other, name) for name in same)
        and family.op_class(one.op) == family.op_class(other.op)
        and ALIKE.get(one.dtype, one.dtype) == ALIKE.get(other.dtype, other.dtype)
        and (one.source, one.software) != (other.source, other.software)
    )


def _error(predictor: Predictor, other: Group) -> float | None:
    """Of rows in the range of a predictor; None where they are too few."""
    chosen = np.random.default_rng(0).permutation(len(other.rows))[:_MOST_ROWS]
    rows = other.rows.take(chosen)
    rows = rows.take(predictor.core.in_range(rows))
    if len(rows) < _LEAST_ROWS:
        return None
    errors = np.abs(np.log(rows.time_ns / predictor.predict(rows).ns))
    return float(np.quantile(errors, _HELD))
