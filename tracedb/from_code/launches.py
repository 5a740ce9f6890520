"""Map ops to the GPU work that they launch: copies by size, kernels by tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, log2, prod
from typing import TYPE_CHECKING

from tracedb.from_code import parts, sorting
from tracedb.from_code.ops import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

    from tracedb.from_code.collectives import Message
    from tracedb.from_code.ops import Argument, Dispatched

# Ops over lists of tensors: tensors per launch by number of lists, chunks per launch,
# and elements per chunk (MultiTensorApply.cuh).
_TENSORS_A_LAUNCH = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}
_CHUNKS_A_LAUNCH = 320
_CHUNK = 65_536

# Kernels that address elements one by one, and their vectorized variants, which move 16
# bytes at once and need rows of a multiple of that (ScatterGatherKernel.cu, Shape.cu of
# PyTorch 2.8).
_VECTORIZED = {
    "indexSelectLargeIndex": "vectorized_gather_kernel",
    "CatArrayBatchedCopy": "CatArrayBatchedCopy_vectorized",
}
_VECTOR_BYTES = 16

_FILLED = re.compile(
    r"(zeros|ones|full|new_zeros|new_ones|new_full|scalar_tensor|eye)(_like)?"
)
_DRAWN = re.compile(r"(rand|randn|randint|randperm|normal|bernoulli)(_like)?")
# PyTorch's collectives, without underscores, and NCCL's kernels.
_NCCL = {
    "allreduce": "AllReduce_Sum",
    "allgather": "AllGather",
    "reducescatter": "ReduceScatter_Sum",
    "alltoall": "SendRecv",
    "broadcast": "Broadcast",
    "reduce": "Reduce_Sum",
    "send": "SendRecv",
    "recv": "SendRecv",
    "scatter": "SendRecv",
    "gather": "SendRecv",
}
_MOVES = re.compile("gather|scatter|alltoall")
"""Those of them that write to another tensor than they read."""
BAGS, DENSE = "aten::_embedding_bag_backward", "aten::_embedding_bag_dense_backward"
"""What autograd calls, and what that calls where the gradient is dense."""
_OFFSETS, _SPARSE = 2, 9
"""Arguments of the first that the second does not have."""
_MERGES = ("merge_sort_partition", "merge_sort_merge")
"""Kernels of each pass in which Thrust merges what is sorted by another comparison."""
_TILE = 2048
"""Numbers of 8 bytes that are sorted at once, before they are merged (CUB)."""
_COUNT_BYTES = 8
_SIZED_BY_VALUES = frozenset(
    (
        *("nonzero", "masked_select", "bincount"),
        *("_unique2", "unique_consecutive", "unique_dim"),
    )
)
"""Ops whose values say how large their results are."""
_INDEXING = frozenset(("index", "_unsafe_index"))
"""Ops whose indices may be along any of the dimensions."""
_LOOKED_UP = "indexSelectLargeIndex"
_NUMBER = re.compile(r"-?\d+")
_COPIED = re.compile(r"_to_copy|clone|contiguous|copy")


@dataclass(frozen=True)
class Work:
    """A GPU op: `kernel`, `collective` or `memcpy`, which moves `moved_bytes`."""

    kind: str
    name: str
    moved_bytes: int = 0
    is_waited_for: bool = False


@dataclass(frozen=True)
class Launching:
    """The GPU work of an op in order, and the inner op that launches it, if any.

    Ops that copy or fill launch through an inner op, whose arguments describe the work.
    """

    work: tuple[Work, ...]
    name: str = ""
    arguments: tuple[Argument, ...] = ()


_NOTHING = Launching(())


@dataclass(frozen=True)
class LaunchTable:
    """The launches of ops: those learnt from traces, else by rules."""

    rules: tuple[tuple[str, tuple[str, ...]], ...]
    learnt: dict[str, tuple[str, ...]]
    tf32_products: bool = False
    tf32_convolutions: bool = False

    @classmethod
    def of(
        cls,
        connection: duckdb.DuckDBPyConnection,
        *,
        tf32_products: bool,
        tf32_convolutions: bool,
    ) -> LaunchTable:
        """Read the table from a database; launches in its traces take precedence."""
        rules = connection.execute(
            "SELECT pattern, kernels FROM prediction.launch_rule ORDER BY ordinal"
        ).fetchall()
        learnt = connection.execute(
            "SELECT name, kernels FROM prediction.learnt_launch ORDER BY name"
        ).fetchall()
        return cls(
            tuple((pattern, tuple(kernels)) for pattern, kernels in rules),
            {name: tuple(kernels) for name, kernels in learnt},
            tf32_products,
            tf32_convolutions,
        )

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], tuple[str, ...]]]:
        return [(re.compile(pattern), kernels) for pattern, kernels in self.rules]

    def launching(self, op: Dispatched, *, launched: Sequence[str] = ()) -> Launching:
        """What an op launches itself, beside what its parts, if any, launched."""
        found = self._launching(op)
        if not launched or not op.name.startswith("aten::"):
            return found
        if op.is_made_by_parts:
            return _NOTHING
        return replace(found, work=parts.remaining(found.work, launched))

    def _launching(self, op: Dispatched) -> Launching:
        bare = parts.bare(op.name)
        if op.called is not None:
            return _collective(op, op.called)
        if op.transfer:
            return _transfer(op)
        if bare == "_local_scalar_dense" and op.is_on_gpu:
            return Launching(
                (_copy("DtoH", op.tensors[0].element_bytes, is_waited=True),)
            )
        if not op.is_on_gpu or op.is_view or not (op.results or op.writes):
            return _NOTHING
        if not any(result.elements for result in op.results or op.tensors):
            return _NOTHING
        found = self._counted(bare, op) or self._kernels(bare, op)
        return _sized(found) if bare in _SIZED_BY_VALUES else found

    def _counted(self, bare: str, op: Dispatched) -> Launching | None:
        """What an op launches that is counted as another one, if it is."""
        if op.counted_as is not None:
            names = self.learnt.get(op.name) or self._ruled(bare, op)
            like, arguments = op.counted_as
            if bare != "_coalesce":
                return Launching(_named(names), like, arguments)
            counts = [a.dims[0] for a in arguments if isinstance(a, Shape)]
            return Launching(_coalesced(names, max(counts)), like, arguments)
        if op.name != BAGS:
            return None
        if op.arguments[_SPARSE] == "True":
            selected = (op.arguments[0], "0", op.arguments[1])
            return Launching(_named((_LOOKED_UP,)), "aten::index_select", selected)
        kept = tuple(op.arguments[:_OFFSETS] + op.arguments[_OFFSETS + 1 : _SPARSE])
        kept += tuple(op.arguments[_SPARSE + 1 :])
        kernels = self.learnt.get(DENSE) or self._ruled(parts.bare(DENSE), op)
        return Launching(_named(kernels), DENSE, kept)

    def _kernels(self, bare: str, op: Dispatched) -> Launching:
        shown = self.learnt.get(op.name)
        if bare.startswith(("_foreach", "_fused")) and "norm" not in bare:
            return Launching((Work("kernel", bare),) * _list_launches(op))
        if op.name != "aten::copy_" and _COPIED.fullmatch(bare):
            into = (op.results[0], op.tensors[0])
            return Launching(_named(shown or ("copy",)), "aten::copy_", into)
        for pattern, name in ((_FILLED, "fill_"), (_DRAWN, "normal_")):
            if pattern.fullmatch(bare):
                return Launching(_named((name,)), f"aten::{name}", (op.results[0],))
        named = _named(shown or self._ruled(bare, op))
        selected = _selected(op) if bare in _INDEXING else ()
        return Launching(named, op.name if selected else "", selected)

    def _ruled(self, bare: str, op: Dispatched) -> tuple[str, ...]:
        name = bare if op.name.startswith("aten::") else op.name
        for pattern, kernels in self._patterns:
            if pattern.fullmatch(name):
                return self._particular(kernels, op)
        return (bare,)

    def _particular(self, kernels: tuple[str, ...], op: Dispatched) -> tuple[str, ...]:
        """The kernels for the op's dtypes, alignment and requested gradients."""
        if not kernels:
            return kernels
        kernels = sorting.by_size(kernels, op)
        if kernels == ("conv_dgrad", "conv_wgrad"):
            kernels = _wanted_gradients(kernels, op)
        if kernels[0] in _VECTORIZED and _is_aligned(op):
            return (_VECTORIZED[kernels[0]],)
        is_single = any(shape.dtype == "float" for shape in op.tensors)
        if kernels == ("gemm",) and is_single:
            return ("tf32_gemm",) if self.tf32_products else ("sgemm",)
        if is_single and self.tf32_convolutions:
            return tuple(
                f"tf32_{name}" if name.startswith("conv") else name for name in kernels
            )
        return kernels


def _selected(op: Dispatched) -> tuple[Argument, ...]:
    """A table and indices that select as much: rows as wide as the result's."""
    # What are given are the places along some of the dimensions.
    rows = max((one.elements for one in op.tensors[1:]), default=0)
    found = op.results[0].elements if op.results else 0
    if not rows or found % rows:
        return ()
    table = replace(op.results[0], dims=(rows, found // rows))
    return table, [Shape((rows,), "long int", _COUNT_BYTES)]


def _coalesced(names: tuple[str, ...], rows: int) -> tuple[Work, ...]:
    """Kernels that merge sorted tiles in passes, and a wait for the number of rows."""
    passes = max(ceil(log2(rows / _TILE)), 0) if rows else 0
    repeated = [n for n in names if n not in _MERGES]
    place = next((p for p, n in enumerate(names) if n in _MERGES), len(repeated))
    if len(repeated) < len(names):
        repeated[place:place] = _MERGES * passes
    *first, last = _named(tuple(repeated))
    return (*first, _copy("DtoH", _COUNT_BYTES, is_waited=True), last)


def _is_aligned(op: Dispatched) -> bool:
    """Whether the rows that an op looks up or joins are multiples of 16 bytes."""
    lists = [argument for argument in op.arguments if isinstance(argument, list)]
    if not lists:
        table = op.tensors[0]
        rows = max(table.dims[0], 1) if table.dims else 1
        return table.elements // rows * table.element_bytes % _VECTOR_BYTES == 0
    joined, dim = lists[0], _dim(op)
    sizes = [prod(shape.dims[dim:]) * shape.element_bytes for shape in joined]
    return all(size % _VECTOR_BYTES == 0 for size in sizes)


def _dim(op: Dispatched) -> int:
    """The dimension along which an op concatenates tensors."""
    given = op.arguments[1] if len(op.arguments) > 1 else ""
    return int(given) if isinstance(given, str) and _NUMBER.fullmatch(given) else 0


def _wanted_gradients(kernels: tuple[str, ...], op: Dispatched) -> tuple[str, ...]:
    """The convolution gradients in the output mask; the bias gradient is a sum."""
    mask = str(op.arguments[-1])
    wanted = [part.strip() == "True" for part in mask.strip("[]()").split(",")]
    if len(wanted) != len(kernels) + 1:
        return kernels
    chosen = [
        name for name, is_wanted in zip(kernels, wanted, strict=False) if is_wanted
    ]
    return (*chosen, *["bias_sum"] * wanted[-1])


def _named(names: tuple[str, ...]) -> tuple[Work, ...]:
    return tuple(Work("kernel", name) for name in names)


def _list_launches(op: Dispatched) -> int:
    """The number of kernels of an op over lists."""
    lists = [a for a in op.arguments if isinstance(a, list)] or [op.tensors]
    depth = min(max(len(lists), 1), max(_TENSORS_A_LAUNCH))
    tensors = [shape for shape in lists[0] if isinstance(shape, Shape)]
    chunks = sum(ceil(shape.elements / _CHUNK) for shape in tensors)
    by_count = ceil(len(tensors) / _TENSORS_A_LAUNCH[depth])
    return max(by_count, ceil(chunks / _CHUNKS_A_LAUNCH), 1)


def _transfer(op: Dispatched) -> Launching:
    size = op.results[0].elements * op.results[0].element_bytes
    way, _, is_async = op.transfer.partition(" ")
    copied = _copy(way, size, is_waited=not is_async)
    return Launching((copied,), "aten::copy_", (op.results[0], op.tensors[0]))


def _collective(op: Dispatched, message: Message) -> Launching:
    """The NCCL kernel of a collective; a rank alone copies, if anything."""
    called = message.kind.replace("_", "").lower()
    if message.ranks == 1:
        into = (*op.results[:1], *op.tensors[:1])
        is_copied = _MOVES.search(called) is not None and len(into) > 1
        copied = Launching(_named(("copy",)), "aten::copy_", into)
        return copied if is_copied else _NOTHING
    for kind, name in _NCCL.items():
        if kind in called and op.tensors:
            return Launching((Work("collective", f"ncclDevKernel_{name}"),))
    return _NOTHING


def _sized(found: Launching) -> Launching:
    """The same, where the host waits for the size of the result."""
    size = _copy("DtoH", _COUNT_BYTES, is_waited=True)
    return replace(found, work=(*found.work, size))


def _copy(way: str, size: int, *, is_waited: bool) -> Work:
    host = "Pageable" if is_waited else "Pinned"
    ends = f"{host} -> Device" if way == "HtoD" else f"Device -> {host}"
    return Work("memcpy", f"Memcpy {way} ({ends})", size, is_waited)
