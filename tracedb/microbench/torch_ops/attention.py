"""Scaled dot-product attention, forward and backward; heads may share keys."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F  # noqa: N812 (as PyTorch's own pages have it)
from torch import Tensor

from ..case import Case
from .tensors import Maker, gradient, op_of


def build(case: Case, device: torch.device) -> Callable[[], object]:
    """Make the attention of a case."""
    s, make = case.shape, Maker.of(case, device)
    attend = op_of(case, {"forward": _attend, "backward": _attend})
    tensor = make.learnt if case.op == "backward" else make.random
    queries = tensor(s["images"], s["heads"], s["queries"], s["head_dim"])
    keys, values = (
        tensor(s["images"], s["kv_heads"], s["keys"], s["head_dim"]) for _ in range(2)
    )
    shared, causal = s["heads"] != s["kv_heads"], bool(s["causal"])
    work = partial(attend, queries, keys, values, shared=shared, causal=causal)
    return gradient(work(), queries, keys, values) if case.op == "backward" else work


def _attend(q: Tensor, k: Tensor, v: Tensor, *, shared: bool, causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared)
