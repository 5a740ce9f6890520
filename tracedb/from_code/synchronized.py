"""Results of the ops of `SyncBatchNorm`, which only GPUs have.

PyTorch knows no sizes of theirs on other devices; the table follows its sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracedb.from_code import place

if TYPE_CHECKING:
    from collections.abc import Callable

_ATEN: Any = torch.ops.aten
_RANKS = "torch/nn/modules/_functions.py"
"""The file of the code that calls them."""
_CHANNELS = 1
"""The dimension of the channels."""


def takes_all(func: Any) -> bool:  # noqa: ANN401 (an overload of an op)
    """Whether an op chooses the ranks that have examples, which all do."""
    return func is _ATEN.index.Tensor and place.of_torch().endswith(_RANKS)


def _sums(like: torch.Tensor, count: int) -> tuple[torch.Tensor, ...]:
    """Values in fp32, one for each channel."""
    channels = like.shape[_CHANNELS]
    return tuple(like.new_empty(channels, dtype=torch.float32) for _ in range(count))


def _stats(given: torch.Tensor, *_: object) -> tuple[torch.Tensor, ...]:
    return _sums(given, 2)


def _normalized(given: torch.Tensor, *_: object) -> torch.Tensor:
    return torch.empty_like(given)


def _reduced(
    _gradient: torch.Tensor,
    given: torch.Tensor,
    _mean: torch.Tensor,
    _inverse: torch.Tensor,
    weight: torch.Tensor | None,
    *_: object,
) -> tuple[torch.Tensor | None, ...]:
    made = _sums(given, 2)
    if weight is None:
        return (*made, None, None)
    return (*made, torch.empty_like(weight), torch.empty_like(weight))


def _gradient(_gradient: torch.Tensor, given: torch.Tensor, *_: object) -> torch.Tensor:
    return torch.empty_like(given)


SIZED: dict[Any, Callable[..., object]] = {
    _ATEN.batch_norm_stats.default: _stats,
    _ATEN.batch_norm_gather_stats_with_counts.default: _stats,
    _ATEN.batch_norm_elemt.default: _normalized,
    _ATEN.batch_norm_backward_reduce.default: _reduced,
    _ATEN.batch_norm_backward_elemt.default: _gradient,
}
"""For each op, what makes results of its sizes."""
