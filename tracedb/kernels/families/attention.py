"""Scaled dot-product attention, forward and backward, fused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .family import Family
from .waves import alignment, wave_features

if TYPE_CHECKING:
    from .family import Figures, Floats, Shapes

# Products of queries and keys: scores and their use; backward, the scores again, then
# the gradients of scores, values, queries and keys.
_PRODUCTS = {"forward": 2.0, "backward": 5.0}


def kv_heads(shapes: Shapes) -> Floats:
    """Heads of keys and values; as many as of queries where that is unknown."""
    return shapes.known("kv_heads", shapes["heads"])


def pairs(shapes: Shapes) -> Floats:
    """Pairs of a query and a key that are looked at, of one head of one image.

    With `causal`, the last query sees all keys, and each one before it one less.
    """
    queries, keys = shapes["queries"], shapes["keys"]
    seen = np.minimum(queries, keys)
    causal = seen * keys - seen * (seen - 1) / 2
    return np.where(shapes.known("causal", 0) > 0, causal, queries * keys)


def flops(shapes: Shapes) -> Floats:
    """[FLOP] Two for each pair, element of a head, and product."""
    heads = shapes["images"] * shapes["heads"]
    products = shapes.by_op(_PRODUCTS, _PRODUCTS["forward"])
    return 2 * products * heads * pairs(shapes) * shapes["head_dim"]


def _query_bytes(shapes: Shapes) -> Floats:
    elements = shapes["images"] * shapes["heads"] * shapes["queries"]
    return elements * shapes["head_dim"] * shapes.element_bytes


def _key_bytes(shapes: Shapes) -> Floats:
    elements = shapes["images"] * shapes["keys"] * shapes["head_dim"]
    return elements * kv_heads(shapes) * shapes.element_bytes


def read_bytes(shapes: Shapes) -> Floats:
    """[B] Queries, keys and values; backward also the output and its gradient."""
    query_sized = np.where(shapes.op == "backward", 3, 1)
    return query_sized * _query_bytes(shapes) + 2 * _key_bytes(shapes)


def written_bytes(shapes: Shapes) -> Floats:
    """[B] The output; backward the gradients of queries, keys and values."""
    is_backward = shapes.op == "backward"
    return _query_bytes(shapes) + np.where(is_backward, 2 * _key_bytes(shapes), 0)


def features(shapes: Shapes, hardware: Figures) -> dict[str, Floats]:
    """Tiles of queries over the multiprocessors, and how heads share keys."""
    rows = shapes["images"] * shapes["heads"]
    found = wave_features(shapes["queries"], shapes["head_dim"], rows, hardware)
    found["log_queries_per_key"] = np.log(shapes["queries"] / shapes["keys"])
    found["log_heads_per_kv_head"] = np.log(shapes["heads"] / kv_heads(shapes))
    found["log_rows"] = np.log(rows)
    found["alignment_keys"] = alignment(shapes["keys"])
    return found


ATTENTION = Family(
    name="attention",
    columns=(
        *("images", "heads", "kv_heads", "queries", "keys", "head_dim", "causal"),
    ),
    flops=flops,
    read_bytes=read_bytes,
    written_bytes=written_bytes,
    features=features,
    optional={"kv_heads": kv_heads, "causal": 0},
    uses_matrix_units=True,
    group=("heads", "kv_heads", "keys", "head_dim"),
)
