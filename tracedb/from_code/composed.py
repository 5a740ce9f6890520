"""Decompose PyTorch ops that call others without a dispatch mode seeing them.

These are functional collectives (`DTensor` calls them) and the ops of `fully_shard`
that copy before and after communication. All others that communicate are refused: fake
tensors would run them as if nothing was sent.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed import distributed_c10d

from tracedb.errors import EstimateError
from tracedb.from_code import place

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracedb.from_code.recorder import Recorder

_C10D: Any = distributed_c10d
"""It exports more than it says."""
_SHARDED = "fsdp"
NAMESPACES = frozenset(
    (_SHARDED, "_c10d_functional", "c10d_functional", "_dtensor", "symm_mem")
)
"""The namespaces of these ops."""
_ASKING = "mesh_get_process_group"
"""The one that communicates nothing."""


def parts(func: Any, recorder: Recorder) -> Callable[..., object] | None:  # noqa: ANN401
    """A function that does the same by ops that dispatch modes see; None: the op does.

    Raises `EstimateError` for one that is not known.
    """
    name = func._schema.name.partition("::")[2]  # noqa: SLF001 (it has no public name)
    if name == _ASKING:
        return None
    if name == "wait_tensor":
        return lambda tensor: _awaited(recorder, tensor)
    found = (_sharded() if func.namespace == _SHARDED else _CALLED).get(name)
    if found is None:
        raise EstimateError(
            f"{place.of_caller()}: what {func.namespace}::{name} sends is unknown; use "
            "a collective of torch.distributed"
        )
    return found


@cache
def _sharded() -> dict[str, Callable[..., object]]:
    """What `fully_shard` calls; its module is loaded once such an op is dispatched."""
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as sharded

    return {
        "all_gather_copy_in": sharded.all_gather_copy_in_cuda,
        "split_with_sizes_copy": sharded.split_with_sizes_copy,
        "chunk_cat": sharded.chunk_cat,
        "chunk_cat_mixed_dtype": _chunk_cat,  # PyTorch 2.15
        "record_grad_output_stream": lambda *_: None,  # likewise; CUDA has no need
        "copy_": lambda into, given: into.copy_(given),
    }


def _chunk_cat(
    tensors: list[torch.Tensor], dim: int, num_chunks: int, *, out: torch.Tensor
) -> None:
    """Put gradients side by side; those of several types are cast first."""
    if len({one.dtype for one in tensors}) > 1:
        tensors = [one.to(out.dtype) for one in tensors]
    torch._chunk_cat(tensors, dim, num_chunks, out=out)  # noqa: SLF001 (as they do)


def _awaited(recorder: Recorder, tensor: torch.Tensor) -> torch.Tensor:
    recorder.wait_for(tensor)
    return tensor


def _group(named: Any) -> Any:  # noqa: ANN401 (a group, or its name)
    if isinstance(named, str):
        return _C10D._resolve_process_group(named)  # noqa: SLF001
    return named


def _call(group: object, name: str, *tensors: object) -> None:
    """Call a method of a group; what awaits its results asks the tensors themselves."""
    getattr(_group(group), name)(*tensors).release()


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _contiguous(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_contiguous() else _copied(tensor)


def _all_reduce_(tensor: torch.Tensor, _op: str, group: object) -> torch.Tensor:
    _call(group, "allreduce", [tensor])
    return tensor


def _all_reduce(tensor: torch.Tensor, op: str, group: object) -> torch.Tensor:
    return _all_reduce_(_copied(tensor), op, group)


def _broadcast_(tensor: torch.Tensor, _source: int, group: object) -> torch.Tensor:
    _call(group, "broadcast", [tensor])
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
    _call(group, "_allgather_base", made, tensor)
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
    _call(group, "_reduce_scatter_base", made, tensor)
    return made


def _all_to_all(
    tensor: torch.Tensor, got: list[int], _sent: list[int], group: object
) -> torch.Tensor:
    made = tensor.new_empty(sum(got), *tensor.shape[1:])
    _call(group, "alltoall_base", made, tensor)
    return made


def _shard_to_shard(
    tensor: torch.Tensor, gathered: int, sharded: int, group: object
) -> torch.Tensor:
    """Shard another dimension: each rank sends all others their parts."""
    ranks = _group(group)
    count = ranks.size()
    cut, joined = [*tensor.shape], [*tensor.shape]
    cut[sharded : sharded + 1] = [count, tensor.shape[sharded] // count]
    joined[sharded] //= count
    joined[gathered] *= count
    sent = _contiguous(tensor.view(cut).movedim(sharded, 0))
    made = torch.empty_like(sent)
    ranks.alltoall_base(made, sent).wait()
    return _contiguous(made.movedim(0, gathered)).view(joined)


def _all_reduce_each_(
    tensors: list[torch.Tensor], _op: str, group: object
) -> list[torch.Tensor]:
    _call(group, "allreduce_coalesced", tensors)
    return tensors


def _all_reduce_each(
    tensors: list[torch.Tensor], op: str, group: object
) -> list[torch.Tensor]:
    return _all_reduce_each_([*map(_copied, tensors)], op, group)


def _all_gather_each(
    tensors: list[torch.Tensor], count: int, group: object
) -> list[torch.Tensor]:
    made = [one.new_empty(one.shape[0] * count, *one.shape[1:]) for one in tensors]
    _call(group, "allgather_into_tensor_coalesced", made, tensors)
    return made


def _reduce_scatter_each(
    tensors: list[torch.Tensor], _op: str, count: int, group: object
) -> list[torch.Tensor]:
    made = [one.new_empty(one.shape[0] // count, *one.shape[1:]) for one in tensors]
    _call(group, "reduce_scatter_tensor_coalesced", made, tensors)
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
    "shard_dim_alltoall": _shard_to_shard,
}
