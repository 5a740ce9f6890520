"""Scaled dot-product attention, forward and backward, fused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family
from .waves import alignment, wave_features

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Tiles of queries over the multiprocessors, and how heads share keys."""
    rows = shapes["images"] * shapes["heads"]
    found = wave_features(shapes["queries"], shapes["head_dim"], rows, hardware)
    found["log_queries_per_key"] = np.log(shapes["queries"] / shapes["keys"])
    found["log_heads_per_kv_head"] = np.log(shapes["heads"] / shapes["kv_heads"])
    found["log_rows"] = np.log(rows)
    found["alignment_keys"] = alignment(shapes["keys"])
    return found


ATTENTION = Family(
    name="attention",
    columns=(
        *("images", "heads", "kv_heads", "queries", "keys", "head_dim", "causal"),
    ),
    relation="prediction.op_attention",
    features=features,
    optional=("kv_heads", "causal"),
    uses_matrix_units=True,
    arithmetic_saved=1.0,
    group=("heads", "kv_heads", "keys", "head_dim"),
    implementations=("fa2", "fa3", "fa4", "trtllm"),
)
