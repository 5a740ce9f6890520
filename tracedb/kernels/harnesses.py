"""How far apart harnesses are: models of one, asked for what another one measured.

A trace is another harness than what a model was trained on: clocks, caches, libraries
differ. Where the data have the same ops on the same hardware by two harnesses, each
pair of them says by how much, at each predicted time: short kernels differ far more
than long ones. A pair has one vote, however many rows it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .bands import NO_ERROR, TimedError, falling, weighted_error
from .dtypes import ALIKE
from .families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from .families import Floats
    from .groups import Group
    from .model import Key
    from .predictor import Predictor
    from .rows import Rows

_MOST_ROWS = 3_000
_LEAST_ROWS = 20
"""Fewer rows in the range of the other harness say nothing."""
_MOST_OTHERS = 30
"""Campaigns that one is compared with, of as many as there are."""
_OTHERS = 2.0
"""Votes of all pairs of other families and types together."""
_TIMES = np.log(1e3 * 2.0 ** np.arange(15))
"""Log times, from 1 us to 16 ms, for each of which pairs say how far apart they are."""
_BESIDE = 0.7
"""How far from a time, as a logarithm, rows still say something of it: by half."""
_FEW = 20.0
"""So many rows near a time have half a vote on it."""
_LEAST_SHARE = 0.05
"""Of all votes: times on which fewer are cast are as the nearest others."""
_KNOWN = 0.5
"""Votes of a family's own pairs up to which a time is known to it."""


@dataclass(frozen=True)
class Comparison:
    """What one harness measured, by the model of another one."""

    one: Key
    """What the model is of."""
    other: Key
    predicted_ns: Floats
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
    for one in groups:
        others = [other for other in groups if are_alike(one.key, other.key)]
        every = -(-len(others) // _MOST_OTHERS) or 1
        for other in others[::every]:
            rows = _rows(predictors[one.key], other)
            if len(rows) >= _LEAST_ROWS:
                ns = predictors[one.key].predict(rows).ns
                errors = np.log(rows.time_ns / ns)
                found.append(Comparison(one.key, other.key, ns, errors))
    return found


def harness_errors(
    keys: Iterable[Key], comparisons: Sequence[Comparison]
) -> dict[Key, TimedError]:
    """`harness_error` of each key, which is the same for all of a family and type."""
    of_kind: dict[tuple[str, str], TimedError] = {}
    found = {}
    for key in keys:
        kind = _kind(key)
        if kind not in of_kind:
            of_kind[kind] = harness_error(key, comparisons)
        found[key] = of_kind[kind]
    return found


def harness_error(key: Key, comparisons: Sequence[Comparison]) -> TimedError:
    """The log errors within which four of five kernels of another harness lie.

    Pairs of the family and type have a vote each. Few of them say little about the next
    harness, so all others together have as much weight as two. Collectives are compared
    with collectives alone: other times are the GPU's own. Errors do not rise with the
    time, and stay as they are beyond what the family's own pairs have: that others
    differ by less there says nothing of it. Without any, they are at least what they
    are over all times. 0 if there is nothing.
    """
    is_linked = bool(FAMILIES[key.family].bandwidths)
    found = [
        each
        for each in comparisons
        if bool(FAMILIES[each.one.family].bandwidths) == is_linked
    ]
    if not found:
        return NO_ERROR
    is_kind = np.array([_kind(each.one) == _kind(key) for each in found])
    votes = np.where(is_kind, 1.0, _OTHERS / max(np.sum(~is_kind), 1))
    errors = np.concatenate([each.errors for each in found])
    sizes = [len(each.errors) for each in found]
    is_own = np.repeat(is_kind, sizes)
    # Each row's part of the votes on each time.
    parts = zip(found, votes, strict=True)
    weights = np.hstack([vote * _near(each.predicted_ns) for each, vote in parts])
    total = weights.sum(axis=1)
    is_told = total >= min(_LEAST_SHARE * votes.sum(), total.max())
    at, weights, total = _TIMES[is_told], weights[is_told], total[is_told]
    error = falling(np.array([weighted_error(errors, w) for w in weights]), total)
    known = np.flatnonzero(weights[:, is_own].sum(axis=1) >= _KNOWN)
    if not len(known):
        least = weighted_error(
            errors, np.repeat(votes, sizes) / np.repeat(sizes, sizes)
        )
        return TimedError(at, np.maximum(error, least))
    error[known[-1] :] = error[known[-1]]
    return TimedError(at, error)


def _near(predicted_ns: Floats) -> Floats:
    """How much each row says of each time: all rows one vote at most."""
    away = (np.log(predicted_ns) - _TIMES[:, np.newaxis]) / _BESIDE
    near = np.exp(-(away**2) / 2)
    found: Floats = near / (near.sum(axis=1, keepdims=True) + _FEW)
    return found


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


def _rows(predictor: Predictor, other: Group) -> Rows:
    """The rows of another harness in the range of a predictor."""
    chosen = np.random.default_rng(0).permutation(len(other.rows))[:_MOST_ROWS]
    rows = other.rows.take(chosen)
    return rows.take(predictor.in_range(rows))
