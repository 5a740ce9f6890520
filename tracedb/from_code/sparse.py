"""Sparse gradients: the ops that PyTorch computes them by, and how many rows they have.

A sparse tensor is an empty fake one that carries its indices and values. Ops on it are
taken apart into ops on these, as PyTorch does on the device (EmbeddingBag.cpp,
SparseTensorMath.cpp, SparseCUDATensor.cu, SparseCUDATensorMath.cu). A gradient has a
row for each row that was looked up. Coalesced, it has as many as random lookups would
have distinct ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from math import expm1, log1p
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from tracedb.errors import EstimateError
from tracedb.from_code import place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from tracedb.from_code.recorder import Recorder

# Ops of PyTorch's that have no public name.
_ATEN: Any = torch.ops.aten
_MAKES = _ATEN._sparse_coo_tensor_with_dims_and_tensors.default  # noqa: SLF001
_BAG_BACKWARD = _ATEN._embedding_bag_backward.default  # noqa: SLF001
_COMPOSITES = frozenset(
    (
        _ATEN._embedding_bag_sparse_backward.default,  # noqa: SLF001
        _ATEN.embedding_sparse_backward.default,
        _ATEN._sparse_coo_tensor_unsafe.default,  # noqa: SLF001
        _ATEN.reshape.default,
        _ATEN.expand_as.default,
        _ATEN.to.dtype,
    )
)
"""Ops on the way that are made of others: below autograd, nobody takes them apart."""
_SPARSE = 9
"""The argument of an embedding bag's backward op that asks for a sparse gradient."""
_ROWS = "_tracedb_rows"
"""The attribute of a sparse tensor that has its contents."""
_FEWEST_SORTED = 2


@dataclass(frozen=True)
class Rows:
    """The contents of a sparse tensor."""

    indices: torch.Tensor
    values: torch.Tensor
    is_coalesced: bool = False

    @property
    def count(self) -> int:
        """How many rows there are."""
        return int(self.values.shape[0])


def is_sparse(tensor: torch.Tensor) -> bool:
    """Whether a tensor consists of rows and their indices."""
    return tensor.layout is torch.sparse_coo


def rows_of(tensor: torch.Tensor) -> Rows:
    """The contents of a sparse tensor.

    Raises `EstimateError` for one that is no gradient of an embedding.
    """
    rows: Rows | None = getattr(tensor, _ROWS, None)
    if rows is None:
        raise EstimateError(
            f"{place.of_caller()}: the contents of a sparse tensor are unknown, unless "
            "it is the gradient of an embedding"
        )
    return rows


def dense_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors that hold the memory of a tensor."""
    if not is_sparse(tensor):
        return (tensor,)
    rows = rows_of(tensor)
    return rows.values, rows.indices


def distinct(lookups: int, rows: int) -> int:
    """How many distinct rows random lookups are expected to hit.

    >>> distinct(1, 100), distinct(100, 100), distinct(10_000, 100)
    (1, 63, 100)
    >>> distinct(100, 40_000_000)
    100
    """
    if rows <= 1:
        return min(lookups, rows)
    return round(-rows * expm1(lookups * log1p(-1 / rows)))


@dataclass(frozen=True)
class Sparse:
    """Executes ops on sparse tensors, by ops that are recorded."""

    recorder: Recorder

    def parts(
        self,
        func: Any,  # noqa: ANN401 (an overload of an op; PyTorch has no public name)
        args: tuple[object, ...],
        given: Iterable[torch.Tensor],
    ) -> Callable[..., object] | None:
        """What does the same as an op; None if no sparse tensor takes part in it.

        Raises `EstimateError` for an op that is not known.
        """
        if func in _COMPOSITES:
            return self.recorder.recorded(func.decompose)
        if func is _BAG_BACKWARD:
            return self.recorder.recorded(_bag_backward) if args[_SPARSE] else None
        if func is not _MAKES and not any(map(is_sparse, given)):
            return None
        name = func._schema.name.partition("::")[2]  # noqa: SLF001
        if name in _ANSWERED:
            return partial(_ANSWERED[name], self)
        if name in _TAKEN_APART:
            return self.recorder.recorded(partial(_TAKEN_APART[name], self))
        raise EstimateError(
            f"{place.of_caller()}: what aten::{name} does with a sparse gradient is "
            "unknown; create the embedding with sparse=False"
        )

    def tensor(self, size: Sequence[int], rows: Rows) -> torch.Tensor:
        """A sparse tensor of these rows."""
        with _disable_current_modes(), self.recorder.fake:
            made: torch.Tensor = _ATEN._sparse_coo_tensor_with_dims(  # noqa: SLF001
                1, len(size) - 1, list(size), dtype=rows.values.dtype,
                layout=torch.sparse_coo, device=torch.device("cpu"),
            )  # fmt: skip
        setattr(made, _ROWS, rows)
        return made

    def coalesced(self, count: int, rows: int) -> int:
        """How many of so many rows are distinct; the answer tells it."""
        found = distinct(count, rows)
        line = (
            f"{found:,} of the {count:,} rows of a sparse gradient are distinct, of "
            f"{rows:,}: random lookups are assumed"
        )
        self.recorder.assumptions.tell(line)
        return found

    def reduced(self, tensor: torch.Tensor, ranks: int) -> None:
        """Add up the gradients of all ranks on the host, as Gloo does."""
        rows = rows_of(tensor)
        if self.recorder.is_on_cuda(rows.values):
            raise EstimateError(
                f"{place.of_caller()}: ranks add up a sparse gradient, which NCCL does "
                "not; create the embedding with sparse=False"
            )
        count = self.coalesced(rows.count * ranks, tensor.shape[0])
        indices = rows.indices.new_empty(1, count)
        values = rows.values.new_empty((count, *rows.values.shape[1:]))
        setattr(tensor, _ROWS, Rows(indices, values, is_coalesced=True))


def _bag_backward(*args: Any) -> torch.Tensor:  # noqa: ANN401
    """The sparse gradient of bags; on a CPU their examples are looked up first."""
    grad, indices, offsets, of_bags, sizes, _, count, by_count, mode = args[:9]
    if not of_bags.numel():
        counts = offsets.new_zeros(indices.shape[0] + 1)
        counts.index_add_(0, offsets, torch.ones_like(offsets))
        counts.select(0, 0).sub_(1)
        of_bags = counts.cumsum_(0).resize_(indices.shape)
    made: torch.Tensor = _ATEN._embedding_bag_sparse_backward(  # noqa: SLF001
        grad, indices, offsets, of_bags, sizes, count, by_count, mode, *args[10:]
    )
    return made


def _made(  # noqa: PLR0913, PLR0917 (as PyTorch has it)
    sparse: Sparse,
    sparse_dims: int,
    _dense_dims: int,
    size: Sequence[int],
    indices: torch.Tensor,
    values: torch.Tensor,
    is_coalesced: bool | None = None,  # noqa: FBT001
    **_: object,
) -> torch.Tensor:
    """A new tensor, which shares the memory of its rows."""
    if sparse_dims != 1:
        raise EstimateError(
            f"{place.of_caller()}: sparse tensors are estimated only as gradients, "
            "which consist of rows; let the step have dense ones"
        )
    return sparse.tensor(size, Rows(indices, values, bool(is_coalesced)))


def _shared(sparse: Sparse, tensor: torch.Tensor, *_: object) -> torch.Tensor:
    return sparse.tensor(tensor.shape, rows_of(tensor))


def _clone(sparse: Sparse, tensor: torch.Tensor, **_: object) -> torch.Tensor:
    """A copy; what becomes the gradient of a parameter is kept if it is contiguous."""
    rows = rows_of(tensor)
    node = torch._C._current_autograd_node()  # noqa: SLF001 (it has no public name)
    is_gradient = node is not None and node.name().endswith("AccumulateGrad")
    if is_gradient and rows.values.is_contiguous() and rows.indices.is_contiguous():
        return sparse.tensor(tensor.shape, rows)
    values, indices = rows.values.clone(), rows.indices.clone()
    return sparse.tensor(tensor.shape, Rows(indices, values, rows.is_coalesced))


def _coalesce(sparse: Sparse, tensor: torch.Tensor) -> torch.Tensor:
    """Add up the rows of equal indices, which are sorted."""
    rows = rows_of(tensor)
    if rows.count < _FEWEST_SORTED:
        copied = Rows(rows.indices.clone(), rows.values.clone(), is_coalesced=True)
        return sparse.tensor(tensor.shape, copied)
    count = sparse.coalesced(rows.count, tensor.shape[0])
    flat = rows.indices.squeeze(0)
    if not sparse.recorder.is_on_cuda(rows.values):
        indices, values = torch.empty_like(rows.indices), torch.empty_like(rows.values)
        flat.sort()
        made = Rows(indices.narrow(1, 0, count), values.narrow(0, 0, count), True)  # noqa: FBT003
        return sparse.tensor(tensor.shape, made)
    flat = flat.clone()
    order, begins = torch.empty_like(flat), torch.empty_like(flat)
    values = rows.values.new_empty((count, *rows.values.shape[1:]))
    sparse.recorder.computed(
        "aten::_coalesce", [tensor], [values],
        ("aten::index_add_", [values, 0, order, rows.values]),
    )  # fmt: skip
    del order, begins
    made = Rows(flat.resize_(1, count), values, is_coalesced=True)
    return sparse.tensor(tensor.shape, made)


def _add_(
    sparse: Sparse, into: torch.Tensor, other: torch.Tensor, *, alpha: float = 1
) -> torch.Tensor:
    """Add rows to a dense tensor, or append them to those of a sparse one."""
    rows = rows_of(other)
    if is_sparse(into):
        return _append(into, rows, alpha)
    values = rows.values.to(dtype=into.dtype)
    if sparse.recorder.is_on_cuda(into) and not rows.is_coalesced:
        return into.index_add_(0, rows.indices.squeeze(0), values, alpha=alpha)
    sparse.recorder.computed(
        "aten::add_", [into, other], [into],
        ("aten::index_add_", [into, 0, rows.indices, values]),
    )  # fmt: skip
    return into


def _append(into: torch.Tensor, rows: Rows, alpha: float) -> torch.Tensor:
    own = rows_of(into)
    values = rows.values if alpha == 1 else rows.values.mul(alpha)
    joined = Rows(
        torch.cat([own.indices, rows.indices], 1), torch.cat([own.values, values])
    )
    setattr(into, _ROWS, joined)
    return into


def _add(
    sparse: Sparse, first: torch.Tensor, other: torch.Tensor, *, alpha: float = 1
) -> torch.Tensor:
    copied = _shared(sparse, first) if is_sparse(first) else first.clone()
    return _add_(sparse, copied, other, alpha=alpha)


def _mul_(_sparse: Sparse, tensor: torch.Tensor, factor: Any) -> torch.Tensor:  # noqa: ANN401
    """Multiply all rows by a number."""
    rows = rows_of(tensor)
    if isinstance(factor, torch.Tensor) and factor.dim():
        raise EstimateError(
            f"{place.of_caller()}: a sparse gradient times a tensor is unknown; create "
            "the embedding with sparse=False"
        )
    indices, values = rows.indices.clone(), rows.values.mul(factor)
    setattr(tensor, _ROWS, Rows(indices, values, rows.is_coalesced))
    return tensor


def _mul(sparse: Sparse, tensor: torch.Tensor, factor: object) -> torch.Tensor:
    return _mul_(sparse, _shared(sparse, tensor), factor)


def _div_(_sparse: Sparse, tensor: torch.Tensor, by: Any) -> torch.Tensor:  # noqa: ANN401
    """Divide all rows by a number."""
    rows_of(tensor).values.div_(by)
    return tensor


def _sparse_mask(
    sparse: Sparse, dense: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """The rows of a dense tensor that a sparse one has: looked up, and times 1."""
    rows = rows_of(mask)
    ones = rows.values.new_ones(1).expand_as(rows.values)
    found = _ATEN.index(dense, [rows.indices.select(0, 0)])
    indices = rows.indices.clone()
    made = Rows(indices, found.mul(ones), rows.is_coalesced)
    return sparse.tensor(mask.shape, made)


def _copy_(
    _sparse: Sparse, into: torch.Tensor, other: torch.Tensor, *_: object
) -> torch.Tensor:
    """Have copies of the rows of another sparse tensor, unless it is the same."""
    rows = rows_of(other)
    if into is not other:
        indices, values = rows.indices.clone(), rows.values.clone()
        setattr(into, _ROWS, Rows(indices, values, rows.is_coalesced))
    return into


def _zero_(_sparse: Sparse, tensor: torch.Tensor) -> torch.Tensor:
    """Have no rows."""
    rows = rows_of(tensor)
    emptied = replace(
        rows, indices=rows.indices.new_empty(1, 0),
        values=rows.values.new_empty((0, *rows.values.shape[1:])),
    )  # fmt: skip
    setattr(tensor, _ROWS, emptied)
    return tensor


_ANSWERED: Mapping[str, Callable[..., object]] = {
    "_sparse_coo_tensor_with_dims_and_tensors": _made,
    "_indices": lambda _, tensor: rows_of(tensor).indices,
    "_values": lambda _, tensor: rows_of(tensor).values,
    "indices": lambda _, tensor: rows_of(tensor).indices,
    "values": lambda _, tensor: rows_of(tensor).values,
    "_nnz": lambda _, tensor: rows_of(tensor).count,
    "is_coalesced": lambda _, tensor: rows_of(tensor).is_coalesced,
    "detach": _shared,
    "alias": _shared,
}
"""What needs no op: a question, or another tensor of the same rows."""
_TAKEN_APART: Mapping[str, Callable[..., object]] = {
    "clone": _clone,
    "_coalesce": _coalesce,
    "add_": _add_,
    "add": _add,
    "mul_": _mul_,
    "mul": _mul,
    "div_": _div_,
    "copy_": _copy_,
    "sparse_mask": _sparse_mask,
    "zero_": _zero_,
}
"""What is computed."""
