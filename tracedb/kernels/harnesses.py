"""How far apart harnesses are: models of one, asked for what another one measured.

A trace is another harness than what a model was trained on: clocks, caches, libraries
differ. Where the data have the same ops on the same hardware by two harnesses, each
pair of them says by how much. A pair has one vote, however many rows it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from .bands import held_by
from .dtypes import ALIKE
from .families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .families import Floats
    from .groups import Group
    from .model import Key
    from .predictor import Predictor

_MOST_ROWS = 3_000
_LEAST_ROWS = 20
"""Fewer rows in the range of the other harness say nothing."""
_OTHERS = 2.0
"""Votes of all pairs of other families and types together."""


@dataclass(frozen=True)
class Comparison:
    """What one harness measured, by the model of another one."""

    one: Key
    """What the model is of."""
    other: Key
    errors: Floats
    """[1] Logarithms of measured over predicted."""

    def has(self, key: Key) -> bool:
        """Whether a campaign has a part in it."""
        return key in (self.one, self.other)


def compared(
    groups: Sequence[Group], predictors: Mapping[Key, Predictor]
) -> list[Comparison]:
    """Each campaign by each other that differs from it in the harness alone."""
    found = []
    for one, other in permutations(groups, 2):
        if are_alike(one.key, other.key):
            errors = _errors(predictors[one.key], other)
            if errors is not None:
                found.append(Comparison(one.key, other.key, errors))
    return found


def harness_error(key: Key, comparisons: Sequence[Comparison]) -> float:
    """The log error within which four of five kernels of another harness lie.

    Pairs of the family and type have a vote each. Few of them say little about the next
    harness, so all others together have as much weight as two. Collectives are compared
    with collectives alone: other times are the GPU's own. 0 if there is nothing.
    """
    is_linked = bool(FAMILIES[key.family].bandwidths)
    found = [
        each
        for each in comparisons
        if bool(FAMILIES[each.one.family].bandwidths) == is_linked
    ]
    if not found:
        return 0.0
    is_kind = [_kind(c.one) == _kind(key) for c in found]
    others = len(found) - sum(is_kind)
    votes = [1.0 if own else _OTHERS / others for own in is_kind]
    return held_by([c.errors for c in found], votes)


def are_alike(one: Key, other: Key) -> bool:
    """Whether two keys differ in the harness alone."""
    family = FAMILIES[one.family]
    return (
        (one.hardware, one.measured) == (other.hardware, other.measured)
        and _kind(one) == _kind(other)
        and family.op_class(one.op) == family.op_class(other.op)
        and (one.source, one.software) != (other.source, other.software)
    )


def _kind(key: Key) -> tuple[str, str]:
    """Family and type; types of one rate are the same."""
    return key.family, ALIKE.get(key.dtype, key.dtype)


def _errors(predictor: Predictor, other: Group) -> Floats | None:
    """Of rows in the range of a predictor; None where they are too few."""
    chosen = np.random.default_rng(0).permutation(len(other.rows))[:_MOST_ROWS]
    rows = other.rows.take(chosen)
    rows = rows.take(predictor.in_range(rows))
    if len(rows) < _LEAST_ROWS:
        return None
    found: Floats = np.log(rows.time_ns / predictor.predict(rows).ns)
    return found
