"""What models are compared with beside their own rooflines: a plain network."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from .families import Floats
    from .rows import Rows

    Singles = NDArray[np.float32]

_ROWS = 2_000
"""Of the network, which takes longer than all other ways together."""
_WIDTHS = (128, 128, 128, 1)
_BATCH, _EPOCHS = 128, 60
_RATE, _DECAY = 1e-3, 1e-4
_MOMENTS = (0.9, 0.999)


def mlp(train: Rows, test: Rows) -> Floats:
    """A network on the logarithms of the sizes, as Lin et al. 2022 have it.

    Three layers of 128, ReLU, mean squared error of the log time, Adam with rate 0.001
    and decay 0.0001 (paper-facts 3.6; of their grid, one configuration).
    """
    from threadpoolctl import threadpool_limits

    some = train.take(np.random.default_rng(0).permutation(len(train))[:_ROWS])
    logs, sizes = np.log(some.time_ns), _sizes(some)
    mean, spread = sizes.mean(axis=0), sizes.std(axis=0)
    spread[spread == 0] = 1
    network = _Network(sizes.shape[1])
    with threadpool_limits(1):
        network.fit((sizes - mean) / spread, (logs - logs.mean()).astype(np.float32))
        found = network.predict((_sizes(test) - mean) / spread)
    times: Floats = np.exp(np.clip(found.astype(float), -30, 30) + logs.mean())
    return times


def _sizes(rows: Rows) -> Singles:
    """In single precision, in which a network learns twice as fast."""
    found = rows.logs
    columns = [found[f"log_{name}"] for name in rows.family.columns]
    return np.stack(columns, axis=1).astype(np.float32)


class _Network:
    """Layers with ReLU between them; scikit-learn's takes twice the time for a step.

    All weights lie in one array, and so do all gradients: Adam is a few lines over
    these, however many layers there are.
    """

    def __init__(self, columns: int) -> None:
        """With weights as Glorot and Bengio draw them, for so many columns."""
        self._random = np.random.default_rng(0)
        self._shapes = [*pairwise((columns, *_WIDTHS))]
        count = sum(a * b + b for a, b in self._shapes)
        self._theta, self._gradient = np.empty((2, count), np.float32)
        self._layers = [*self._views(self._theta)]
        self._slopes = [*self._views(self._gradient)]
        for weights, offsets in self._layers:
            bound = np.sqrt(6 / sum(weights.shape))
            weights[:] = self._random.uniform(-bound, bound, weights.shape)
            offsets[:] = self._random.uniform(-bound, bound, offsets.shape)

    def fit(self, inputs: Singles, targets: Singles) -> None:
        """Learn for all epochs; scikit-learn's rule to stop made it worse."""
        adam = _Adam(len(self._theta))
        for _ in range(_EPOCHS):
            order = self._random.permutation(len(inputs))
            for first in range(0, len(inputs), _BATCH):
                rows = order[first : first + _BATCH]
                self._descend(inputs[rows], targets[rows, None], adam)

    def predict(self, inputs: Singles) -> Singles:
        """What it says of each row."""
        return self._outputs(inputs)[-1][:, 0]

    def _views(self, flat: Singles) -> Iterator[tuple[Singles, Singles]]:
        """Weights and offsets of each layer, within one array."""
        begin = 0
        for a, b in self._shapes:
            end = begin + a * b
            yield flat[begin:end].reshape(a, b), flat[end : end + b]
            begin = end + b

    def _outputs(self, inputs: Singles) -> list[Singles]:
        """The inputs, and what comes out of each layer."""
        found = [inputs]
        for weights, offsets in self._layers:
            found.append(found[-1] @ weights + offsets)
            if len(found) <= len(self._layers):
                np.maximum(found[-1], 0, out=found[-1])
        return found

    def _descend(self, inputs: Singles, targets: Singles, adam: _Adam) -> None:
        """One step down the mean squared error and what large weights cost."""
        outputs = self._outputs(inputs)
        off = (outputs.pop() - targets) / len(inputs)
        for number in reversed(range(len(self._layers))):
            (weights, _), (slopes, offsets) = self._layers[number], self._slopes[number]
            np.matmul(outputs[number].T, off, out=slopes)
            slopes += (_DECAY / len(inputs)) * weights
            off.sum(axis=0, out=offsets)
            off = (off @ weights.T) * (outputs[number] > 0)
        adam.step(self._theta, self._gradient)


class _Adam:
    """The steps of Kingma and Ba's Adam."""

    def __init__(self, count: int) -> None:
        self._means, self._squares = np.zeros((2, count), np.float32)
        self._steps = 0

    def step(self, theta: Singles, gradient: Singles) -> None:
        """Change weights by a gradient, in place."""
        self._steps += 1
        first, second = _MOMENTS
        self._means += (1 - first) * (gradient - self._means)
        self._squares += (1 - second) * (gradient * gradient - self._squares)
        scale = np.sqrt(1 - second**self._steps) / (1 - first**self._steps)
        theta -= (_RATE * float(scale)) * self._means / (np.sqrt(self._squares) + 1e-8)
