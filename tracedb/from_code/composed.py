"""Decompose PyTorch ops that call others without a dispatch mode seeing them.

These are functional collectives (`DTensor` calls them) and the ops of `fully_shard`
that copy before and after communication.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import distributed_c10d

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracedb.from_code.recorder import Recorder

_C10D: Any = distributed_c10d
"""It exports more than it says."""
_FUNCTIONAL, _SHARDED = "_c10d_functional", "fsdp"
NAMESPACES = frozenset((_FUNCTIONAL, _SHARDED))
"""The namespaces of these ops."""


def parts(func: Any, recorder: Recorder) -> Callable[..., object] | None:  # noqa: ANN401
    """A function that does the same by ops that dispatch modes see, if known."""
    name = func._schema.name.partition("::")[2]  # noqa: SLF001 (it has no public name)
    if func.namespace == _SHARDED:
        return _sharded().get(name)
    if name == "wait_tensor":
        return lambda tensor: _awaited(recorder, tensor)
    return _CALLED.get(name)


@cache
def _sharded() -> dict[str, Callable[..., object]]:
    """What `fully_shard` calls; its module is loaded once such an op is dispatched."""
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as sharded

    return {
        "all_gather_copy_in": sharded.all_gather_copy_in_cuda,
        "split_with_sizes_copy": sharded.split_with_sizes_copy,
        "chunk_cat": sharded.chunk_cat,
    }


def _awaited(recorder: Recorder, tensor: torch.Tensor) -> torch.Tensor:
    recorder.wait_for(tensor)
    return tensor


def _group(named: Any) -> Any:  # noqa: ANN401 (a group, or its name)
    if isinstance(named, str):
        return _C10D._resolve_process_group(named)  # noqa: SLF001
    return named


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _all_reduce_(tensor: torch.Tensor, _op: str, group: object) -> torch.Tensor:
    _group(group).allreduce([tensor])
    return tensor


def _all_reduce(tensor: torch.Tensor, op: str, group: object) -> torch.Tensor:
    return _all_reduce_(_copied(tensor), op, group)


def _broadcast_(tensor: torch.Tensor, _source: int, group: object) -> torch.Tensor:
    _group(group).broadcast([tensor])
    return tensor


def _broadcast(tensor: torch.Tensor, source: int, group: object) -> torch.Tensor:
    return _broadcast_(_copied(tensor), source, group)


def _all_gather(
    tensor: torch.Tensor,
    count: int,
    group: object,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    first, *others = tensor.shape
    made = tensor.new_empty(first * count, *others) if out is None else out
    _group(group)._allgather_base(made, tensor)  # noqa: SLF001 (as C++ calls it)
    return made


def _reduce_scatter(
    tensor: torch.Tensor,
    _op: str,
    count: int,
    group: object,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    first, *others = tensor.shape
    made = tensor.new_empty(first // count, *others) if out is None else out
    _group(group)._reduce_scatter_base(made, tensor)  # noqa: SLF001
    return made


def _all_to_all(
    tensor: torch.Tensor, got: list[int], _sent: list[int], group: object
) -> torch.Tensor:
    made = tensor.new_empty(sum(got), *tensor.shape[1:])
    _group(group).alltoall_base(made, tensor)
    return made


def _all_reduce_each_(
    tensors: list[torch.Tensor], _op: str, group: object
) -> list[torch.Tensor]:
    _group(group).allreduce_coalesced(tensors)
    return tensors


def _all_reduce_each(
    tensors: list[torch.Tensor], op: str, group: object
) -> list[torch.Tensor]:
    return _all_reduce_each_([*map(_copied, tensors)], op, group)


def _all_gather_each(
    tensors: list[torch.Tensor], count: int, group: object
) -> list[torch.Tensor]:
    made = [one.new_empty(one.shape[0] * count, *one.shape[1:]) for one in tensors]
    _group(group).allgather_into_tensor_coalesced(made, tensors)
    return made


def _reduce_scatter_each(
    tensors: list[torch.Tensor], _op: str, count: int, group: object
) -> list[torch.Tensor]:
    made = [one.new_empty(one.shape[0] // count, *one.shape[1:]) for one in tensors]
    _group(group).reduce_scatter_tensor_coalesced(made, tensors)
    return made


_CALLED: dict[str, Callable[..., object]] = {
    "all_reduce": _all_reduce,
    "all_reduce_": _all_reduce_,
    "all_reduce_coalesced": _all_reduce_each,
    "all_reduce_coalesced_": _all_reduce_each_,
    "broadcast": _broadcast,
    "broadcast_": _broadcast_,
    "all_gather_into_tensor": _all_gather,
    "all_gather_into_tensor_out": _all_gather,
    "all_gather_into_tensor_coalesced": _all_gather_each,
    "reduce_scatter_tensor": _reduce_scatter,
    "reduce_scatter_tensor_out": _reduce_scatter,
    "reduce_scatter_tensor_coalesced": _reduce_scatter_each,
    "all_to_all_single": _all_to_all,
}
