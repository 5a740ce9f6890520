"""Steps of optimizers over all parameters: `tensors` of them, `elements` in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Elements of a tensor, and of a multiprocessor."""
    tensors = shapes["tensors"]
    return {
        "log_elements_per_tensor": np.log(shapes["elements"] / tensors),
        "log_elements_per_sm": np.log(shapes["elements"] / hardware["sm_count"]),
    }


OPTIMIZER = Family(
    name="optimizer",
    columns=("tensors", "elements"),
    relation="prediction.op_optimizer",
    features=features,
    optional=("tensors",),
    group=("tensors",),
)
