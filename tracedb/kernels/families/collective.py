"""Collectives: `bytes` as nccl-tests count them, over `ranks` ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes

OPS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "send_recv",
)


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """How many nodes take part."""
    del hardware
    return {"log_nodes": np.log(shapes["ranks"] / shapes["ranks_per_node"])}


COLLECTIVE = Family(
    name="collective",
    columns=("bytes", "ranks", "ranks_per_node"),
    relation="prediction.op_collective",
    features=features,
    optional=("ranks_per_node",),
    bandwidths=dict.fromkeys(OPS, "nvlink_bytes_per_second"),
    group=("ranks", "ranks_per_node"),
    is_typed=False,
)
