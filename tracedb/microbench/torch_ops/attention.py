"""Scaled dot-product attention, forward and backward; heads may share keys."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 (as PyTorch's own pages have it)

from ..case import Case
from .tensors import Maker, gradient, op_of

_OPS = dict.fromkeys(("forward", "backward"), F.scaled_dot_product_attention)


def build(case: Case, device: torch.device) -> Callable[[], object]:
    """Make the attention of a case."""
    s, make = case.shape, Maker.of(case, device)
    attend = op_of(case, _OPS)
    tensor = make.learnt if case.op == "backward" else make.random
    queries = tensor(s["images"], s["heads"], s["queries"], s["head_dim"])
    keys, values = (
        tensor(s["images"], s["kv_heads"], s["keys"], s["head_dim"]) for _ in range(2)
    )
    how: dict[str, Any] = {"is_causal": bool(s["causal"])}
    if s["heads"] != s["kv_heads"]:
        how["enable_gqa"] = True
    work = partial(attend, queries, keys, values, **how)
    return gradient(work(), queries, keys, values) if case.op == "backward" else work
