"""Regressors of log(measured / base), as forests that need no scikit-learn to predict.

Trees cannot leave the values they were shown, and a residual of 0 is the calibrated
roofline: outside the range of the training data these models stay reasonable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .trees import Forest, averaged, boosted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

    from .families import Floats

FORESTS = ("boosted", "averaged")
"""The kinds of forest that models are trained with."""
SMALL = "small"
"""A boosted forest of half as many trees, in single precision: of shipped models."""
LEAST_ROWS = 25
"""Fewer rows tell the roofline's constants, and no more."""
_SEED = 0
_FEW_TREES, _FASTER = 60, 0.22
_TRIAL_TREES, _TRIAL_RATE = 40, 0.3
"""Of a boosted forest that is only tried: 1.5 % farther off than 60 trees."""
_AVERAGED, _TRIED = 20, 10
"""Trees of an average, and of one that is only tried."""
_MANY = 400
"""Rows from which a leaf may ask for twenty of them."""


def fit_forests(
    features: NDArray[np.float32],
    residual: Floats,
    kinds: Sequence[str] = FORESTS,
    *,
    is_trial: bool = False,
) -> dict[str, Forest]:
    """Fit some kinds of forest to residuals; features come row by row.

    Those of trials, which tell kinds apart, have half as many trees and fewer.
    """
    from threadpoolctl import threadpool_limits

    # They bring the threads that are limited.
    few = _boosting(len(residual), max_iter=_FEW_TREES, learning_rate=_FASTER)
    tried = (_TRIAL_TREES, _TRIAL_RATE) if is_trial else ()
    boosting = _boosting(len(residual), *tried)
    averaging = _averaging(_TRIED if is_trial else _AVERAGED)
    fits = {
        SMALL: lambda: boosted(few.fit(features, residual)).in_single_precision(),
        "boosted": lambda: boosted(boosting.fit(features, residual)),
        "averaged": lambda: averaged(averaging.fit(features, residual)),
    }
    # Threads that wait for busy cores cost far more than they save.
    with threadpool_limits(1):
        return {kind: fits[kind]() for kind in kinds}


def _boosting(
    rows: int, max_iter: int = 110, learning_rate: float = 0.15
) -> HistGradientBoostingRegressor:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        max_iter=max_iter,
        learning_rate=learning_rate,
        max_leaf_nodes=32,
        max_features=0.4,
        min_samples_leaf=20 if rows >= _MANY else 5,
        early_stopping=False,
        random_state=_SEED,
    )


def _averaging(trees: int) -> ExtraTreesRegressor:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(
        n_estimators=trees,
        max_leaf_nodes=1024,
        min_samples_leaf=2,
        max_features=1.0,
        random_state=_SEED,
    )


MIXES: Mapping[str, Mapping[str, float]] = {
    "base": {},
    SMALL: {SMALL: 1.0},
    "boosted": {"boosted": 1.0},
    "averaged": {"averaged": 1.0},
    "both": {"boosted": 0.5, "averaged": 0.5},
}
"""How forests are weighed; validation chooses one for each distance from the data."""


def mixed(mix: str, residuals: Mapping[str, Floats], rows: int) -> Floats:
    """The residual that a mix predicts."""
    total = np.zeros(rows)
    for name, weight in MIXES[mix].items():
        total += weight * residuals[name]
    return total
