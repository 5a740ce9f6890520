"""What models are compared with beside their own rooflines: a plain network."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .families import Floats
    from .rows import Rows

_ROWS = 2_000
"""Of the network, which takes longer than all other ways together."""


def mlp(train: Rows, test: Rows) -> Floats:
    """A network on the logarithms of the sizes, as Lin et al. 2022 have it.

    Three layers of 128, ReLU, mean squared error of the log time, Adam with rate 0.001
    and decay 0.0001 (paper-facts 3.6; of their grid, one configuration).
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    some = train.take(np.random.default_rng(0).permutation(len(train))[:_ROWS])
    mean = float(np.log(some.time_ns).mean())
    network = MLPRegressor(
        hidden_layer_sizes=(128, 128, 128),
        alpha=1e-4,
        batch_size=min(128, len(some)),
        max_iter=60,
        random_state=0,
    )
    model = make_pipeline(StandardScaler(), network)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(_sizes(some), (np.log(some.time_ns) - mean).astype(np.float32))
        logs: Floats = model.predict(_sizes(test))
    return np.exp(np.clip(logs, -30, 30) + mean)


def _sizes(rows: Rows) -> NDArray[np.float32]:
    """In single precision, in which a network learns twice as fast."""
    found = rows.logs
    columns = [found[f"log_{name}"] for name in rows.family.columns]
    return np.stack(columns, axis=1).astype(np.float32)
