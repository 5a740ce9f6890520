"""Peaks of steps whose ops copy tensors to another layout or type on a CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from allocator import estimated, real_peak
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tensor = torch.Tensor

SHAPE = (4, 16, 12, 12)
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "roll": lambda h: h.roll((1, 2, 3), (1, 2, 3)),
    "shuffle": lambda h: functional.channel_shuffle(h, 4),
    "median": lambda h: h.median(1)[0],
    "distances": lambda h: torch.cdist(h, h + 1),
    "logsigmoid": functional.logsigmoid,
    "rrelu": lambda h: functional.rrelu(h, training=True),
    "glu": lambda h: functional.glu(h, 1),
    "norm": lambda h: functional.batch_norm(h, None, None, training=True),
    "running": lambda h: functional.batch_norm(
        h, torch.zeros(16), torch.ones(16), training=True
    ),
    "sort": lambda h: h.sort(1)[0],
    "mean squares": lambda h: functional.mse_loss(h, torch.zeros(SHAPE)),
    "alike": lambda h: functional.mse_loss(h, torch.zeros(SHAPE, dtype=h.dtype)),
    "huber": lambda h: functional.huber_loss(h, torch.zeros(SHAPE, dtype=h.dtype)),
    "angle": lambda h: torch.complex(h.float(), h.float() + 1).angle(),
    "strided product": lambda h: h[0, 0] @ h[0, 1],
    "unpooled": lambda h: functional.max_unpool2d(
        *functional.max_pool2d(h, 2, return_indices=True), [2, 2]
    ),
    "reflected": lambda h: functional.pad(h, (1, 1, 1, 1), "reflect"),
    "power": lambda h: 2**h,
}
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda given: given,
    "channels last": lambda given: given.contiguous(memory_format=torch.channels_last),
    "transposed": lambda given: given.mT.contiguous().mT,
    "half": lambda given: given.bfloat16(),
}


CASES = [
    *((name, "channels last") for name in FUNCTIONS),
    *((name, "half") for name in ("running", "sort", "mean squares", "alike", "huber")),
    *((name, "transposed") for name in ("norm", "distances", "strided product")),
    ("roll", "contiguous"),
]


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_peaks_of_other_layouts(name: str, layout: str, tmp_path: Path) -> None:
    """Without gradients, the peak is the op's own; with them, layouts matter later."""
    function, laid = FUNCTIONS[name], LAYOUTS[layout]

    def make() -> Callable[[], None]:
        given = laid(torch.randn(SHAPE)).requires_grad_()

        def run() -> None:
            with torch.no_grad():
                function(given)
            given.grad = None
            made = function(given)
            torch.autograd.backward(made, torch.ones_like(made))

        return run

    peak = estimated(make).memory.peak_bytes
    # Numbers that were made before the step are in the estimate alone.
    assert peak == pytest.approx(real_peak(make, tmp_path), rel=0.005)


def test_orthogonal_weights_are_near_their_first_ones(tmp_path: Path) -> None:
    """Exponentials of small matrices need few terms, and so do their gradients."""

    def make() -> Callable[[], None]:
        layer = parametrizations.orthogonal(nn.Linear(64, 64))
        optimizer = torch.optim.Adam(layer.parameters())
        given = torch.randn(32, 64)

        def run() -> None:
            optimizer.zero_grad()
            torch.autograd.backward(layer(given).square().mean())
            optimizer.step()

        return run

    peak = estimated(make).memory.peak_bytes
    assert peak == pytest.approx(real_peak(make, tmp_path), rel=0.005)
