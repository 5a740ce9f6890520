"""Steps of optimizers over all parameters: `tensors` of them, `elements` in all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .family import Family

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


@dataclass(frozen=True)
class _Step:
    """What a step does with each element: numbers read, written, operations."""

    reads: float
    writes: float
    flops: float


# Parameter and gradient are read, the parameter is written; then come the states.
_STEPS = {
    "sgd": _Step(2, 1, 2),
    "momentum": _Step(3, 2, 4),
    "adagrad": _Step(3, 2, 6),
    "adam": _Step(4, 3, 12),
    "adamw": _Step(4, 3, 13),
}


def _step(name: str) -> dict[str, float]:
    """One number of each op, fused or not."""
    numbers = {op: getattr(step, name) for op, step in _STEPS.items()}
    return numbers | {f"fused_{op}": number for op, number in numbers.items()}


def flops(shapes: Shapes) -> Floats:
    """[FLOP] Per element, by op."""
    return shapes["elements"] * shapes.by_op(_step("flops"), 12)


def read_bytes(shapes: Shapes) -> Floats:
    """[B] Parameters, gradients and states."""
    reads = shapes.by_op(_step("reads"), 4)
    return shapes["elements"] * reads * shapes.element_bytes


def written_bytes(shapes: Shapes) -> Floats:
    """[B] Parameters and states."""
    writes = shapes.by_op(_step("writes"), 3)
    return shapes["elements"] * writes * shapes.element_bytes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Elements of a tensor, and of a multiprocessor."""
    tensors = shapes.known("tensors", 1)
    return {
        "log_elements_per_tensor": np.log(shapes["elements"] / tensors),
        "log_elements_per_sm": np.log(shapes["elements"] / hardware["sm_count"]),
    }


OPTIMIZER = Family(
    name="optimizer",
    columns=("tensors", "elements"),
    flops=flops,
    read_bytes=read_bytes,
    written_bytes=written_bytes,
    features=features,
    optional={"tensors": 1},
    group=("tensors",),
)
