"""PyTorch operators as programs: names, shapes, nested ops and launches.

Host times are drawn around typical values, kernel times follow from the work: a
roofline of roughly an H100 with a constant on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from .program import (
    Annotation,
    Collective,
    Copy,
    EventRecord,
    Gap,
    Launch,
    Op,
    OtherCall,
    StreamSync,
    StreamWait,
)

if TYPE_CHECKING:
    from random import Random

    from .program import Action, Dims, Direction

_FLOPS_PER_NS = 2e5
_BYTES_PER_NS = 2.5e3
_LINK_BYTES_PER_NS = 200
_KERNEL_NS = 1_800
_FLOAT_BYTES = 4
_OCCUPANCY = "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags"

_GEMM = "sm90_xmma_gemm_f32f32_tf32f32_f32_{0}_tilesize128x128x32_warpgroupsize1x1x1"
_ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::{0}<float>, "
    "std::array<char*, 2ul> >(int, at::native::{0}<float>, std::array<char*, 2ul>)"
)
_REDUCE = (
    "void at::native::reduce_kernel<128, 4, at::native::ReduceOp<float, "
    "at::native::func_wrapper_t<float, at::native::sum_functor<float, float, float> >, "
    "unsigned int, float, 4, 4> >(at::native::ReduceOp<float>)"
)
_CAT = (
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<"
    "at::native::(anonymous namespace)::OpaqueType<4u>, unsigned int, 2, 128, 1>(...)"
)
_EMBEDDING = (
    "void at::native::(anonymous namespace)::EmbeddingBag_updateOutputKernel_sum_mean"
    "<float, long>(long const*, long const*, float const*, float*, long*, long)"
)
_EMBEDDING_BACKWARD = (
    "void at::native::(anonymous namespace)::compute_grad_weight_bags<float, long>"
    "(long const*, float const*, long const*, long const*, long, long, float*)"
)
_INDEX = (
    "void at::native::index_elementwise_kernel<128, 4, "
    "at::native::gpu_index_kernel<float> >(long, at::native::gpu_index_kernel<float>)"
)
_FOREACH = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<"
    "at::native::(anonymous namespace)::TensorListMetadata<2>, "
    "at::native::(anonymous namespace)::BinaryOpListAlphaFunctor<float, 2, 2, 0> >(...)"
)


@dataclass(frozen=True, slots=True)
class Table:
    """An embedding table and how it is read."""

    rows: int
    dim: int
    lookups: int
    """Rows summed up per sample."""


@dataclass(frozen=True, slots=True)
class Message:
    """A collective and the streams it lies between."""

    name: str
    elements: int
    stream: int
    done: str
    """The event that marks its end."""


@dataclass(frozen=True, slots=True)
class Operators:
    """Makes ops of one thread that launch on one stream; `pace` scales host time."""

    random: Random
    stream: int = 7
    pace: float = 1.0

    # Parts

    def gap(self, mean_ns: int = 1_200) -> Gap:
        """Return host time around a mean, at least 1 ns."""
        share = self.pace * self.random.uniform(0.6, 1.4)
        return Gap(max(1, round(mean_ns * share)))

    def op(
        self,
        name: str,
        dims: Dims,
        *inside: Action,
        sequence: int | None = None,
        backward: bool = False,
    ) -> Op:
        """Return an op with host time around each of its parts."""
        body: list[Action] = [self.gap()]
        for action in inside:
            body += [action, self.gap(900)]
        return Op(name, tuple(body), dims, (), sequence, backward)

    def kernel(self, name: str, flops: float, size_bytes: float) -> Launch:
        """Return the launch of a kernel with so much work."""
        work_ns = max(flops / _FLOPS_PER_NS, size_bytes / _BYTES_PER_NS)
        kernel_ns = round((_KERNEL_NS + work_ns) * self.random.uniform(0.98, 1.02))
        blocks = max(1, min(65_535, round(size_bytes / 4096)))
        return Launch(self.stream, kernel_ns, name, grid=(blocks, 1, 1))

    def _gemm(self, kind: str, shape: tuple[int, ...]) -> Launch:
        flops = 2.0 * prod(shape)
        batch, (m, k, n) = prod(shape[:-3]), shape[-3:]
        size_bytes = _FLOAT_BYTES * batch * (m * k + k * n + m * n)
        return self.kernel(_GEMM.format(kind), flops, size_bytes)

    def _elementwise(self, functor: str, dims: tuple[int, ...], moves: int) -> Launch:
        size_bytes = _FLOAT_BYTES * prod(dims) * moves
        return self.kernel(_ELEMENTWISE.format(functor), prod(dims), size_bytes)

    def _transposed(self, rows: int, columns: int) -> Op:
        strided = self.op("aten::as_strided", ((rows, columns), (), (), ()))
        transpose = self.op("aten::transpose", ((rows, columns), (), ()), strided)
        return self.op("aten::t", ((rows, columns),), transpose)

    # Forward

    def linear(self, batch: int, shape: tuple[int, int], sequence: int) -> Op:
        """Return `aten::linear` from `shape[0]` to `shape[1]` features."""
        inputs, outputs = shape
        addmm = self.op(
            "aten::addmm",
            ((outputs,), (batch, inputs), (inputs, outputs), (), ()),
            OtherCall(_OCCUPANCY, 400),
            self._gemm("tn", (batch, inputs, outputs)),
            sequence=sequence,
        )
        dims = ((batch, inputs), (outputs, inputs), (outputs,))
        return self.op("aten::linear", dims, self._transposed(outputs, inputs), addmm)

    def relu(self, dims: tuple[int, ...], sequence: int) -> Op:
        """Return `aten::relu`."""
        clamp = self._elementwise("clamp_min_functor", dims, 2)
        inner = self.op("aten::clamp_min", (dims, ()), clamp)
        return self.op("aten::relu", (dims,), inner, sequence=sequence)

    def embedding_bag(self, batch: int, table: Table, sequence: int) -> Op:
        """Return the lookup of a batch in a table."""
        count = batch * table.lookups
        moved = _FLOAT_BYTES * (count + batch) * table.dim + 8 * count
        dims = ((table.rows, table.dim), (count,), (batch,), (), (), (), ())
        lookup = self.op(
            "aten::_embedding_bag",
            dims,
            self.op("aten::empty", ((), (), (), (), (), ())),
            self.kernel(_EMBEDDING, count * table.dim, moved),
            sequence=sequence,
        )
        return self.op("aten::embedding_bag", dims, lookup)

    def bmm(self, batch: int, shape: tuple[int, int, int], sequence: int) -> Op:
        """Return `aten::bmm` of (m, k) by (k, n) matrices."""
        m, k, n = shape
        gemm = self._gemm("batched_nn", (batch, m, k, n))
        dims = ((batch, m, k), (batch, k, n))
        return self.op("aten::bmm", dims, gemm, sequence=sequence)

    def cat(self, batch: int, width: int, sequence: int) -> Op:
        """Return `aten::cat` to so many columns; a list of tensors has no dims."""
        copy = self.kernel(_CAT, 0, 2.0 * _FLOAT_BYTES * batch * width)
        return self.op("aten::cat", ((), ()), copy, sequence=sequence)

    def index(self, dims: tuple[int, ...], sequence: int) -> Op:
        """Return `aten::index`, which picks elements."""
        gather = self.kernel(_INDEX, 0, 2.0 * _FLOAT_BYTES * prod(dims))
        return self.op("aten::index", (dims, ()), gather, sequence=sequence)

    def loss(self, batch: int, sequence: int) -> Op:
        """Return the binary cross entropy of a batch, with its mean."""
        dims = ((batch, 1), (batch, 1))
        inner = self.op("aten::log_sigmoid_forward", dims[:1], self._sigmoid(batch))
        mean = self.kernel(_REDUCE, batch, _FLOAT_BYTES * batch)
        name = "aten::binary_cross_entropy_with_logits"
        last = self.op("aten::mean", (dims[0], ()), mean)
        return self.op(name, (*dims, (), (), ()), inner, last, sequence=sequence)

    def _sigmoid(self, batch: int) -> Launch:
        return self._elementwise("sigmoid_functor", (batch, 1), 2)

    # Backward

    def _node(self, name: str, sequence: int, dims: Dims, *inside: Action) -> Op:
        """Return a node of the autograd graph, as its engine evaluates it."""
        inner = self.op(name, dims, *inside, sequence=sequence, backward=True)
        return self._evaluated(name, sequence, inner)

    def _evaluated(self, name: str, sequence: int, *inside: Action) -> Op:
        outer = f"autograd::engine::evaluate_function: {name}"
        return self.op(outer, (), *inside, sequence=sequence, backward=True)

    def _accumulate(self, dims: tuple[int, ...]) -> Op:
        detach = self.op("aten::detach", (dims,), self.op("detach", (dims,)))
        name = "torch::autograd::AccumulateGrad"
        inner = self.op(name, (dims,), detach)
        return self.op(f"autograd::engine::evaluate_function: {name}", (), inner)

    def linear_backward(
        self, batch: int, shape: tuple[int, int], sequence: int
    ) -> tuple[Op, ...]:
        """Return the nodes of a linear layer: both products, then its gradients."""
        inputs, outputs = shape
        parts = (
            self._transposed(outputs, inputs),
            self._mm(batch, outputs, inputs),
            self._transposed(batch, outputs),
            self._mm(outputs, batch, inputs),
        )
        dims = ((batch, outputs),)
        name = "AddmmBackward0"
        products = self.op(name, dims, *parts, sequence=sequence, backward=True)
        bias = self._evaluated(name, sequence, products, self._sum(batch, outputs))
        turn = self._transpose_backward(inputs, outputs)
        weight = self._accumulate((outputs, inputs))
        return bias, self._accumulate((outputs,)), turn, weight

    def _transpose_backward(self, inputs: int, outputs: int) -> Op:
        inner = self.op(
            "TBackward0", ((inputs, outputs),), self._transposed(inputs, outputs)
        )
        return self.op("autograd::engine::evaluate_function: TBackward0", (), inner)

    def _sum(self, rows: int, columns: int) -> Op:
        reduce = self.kernel(_REDUCE, rows * columns, _FLOAT_BYTES * rows * columns)
        return self.op("aten::sum", ((rows, columns), (), (), ()), reduce)

    def _mm(self, m: int, k: int, n: int) -> Op:
        return self.op("aten::mm", ((m, k), (k, n)), self._gemm("nt", (m, k, n)))

    def relu_backward(self, dims: tuple[int, ...], sequence: int) -> Op:
        """Return the node of a relu."""
        threshold = self._elementwise("threshold_backward", dims, 3)
        inner = self.op("aten::threshold_backward", (dims, dims, ()), threshold)
        return self._node("ReluBackward0", sequence, (dims,), inner)

    def embedding_bag_backward(self, batch: int, table: Table, sequence: int) -> Op:
        """Return the node of a lookup: sorting, then the gradient of the table."""
        count = batch * table.lookups
        moved = 2.0 * _FLOAT_BYTES * count * table.dim
        sort = self.kernel(
            "void cub::DeviceRadixSortOnesweepKernel<...>", 0, 64.0 * count
        )
        weight = self.kernel(_EMBEDDING_BACKWARD, count * table.dim, moved)
        dims = ((batch, table.dim), (count,), (batch,))
        dense = self.op("aten::_embedding_bag_dense_backward", dims, sort, weight)
        inner = self.op("aten::_embedding_bag_backward", dims, dense)
        return self._node("EmbeddingBagBackward0", sequence, dims[:1], inner)

    def bmm_backward(
        self, batch: int, shape: tuple[int, int, int], sequence: int
    ) -> Op:
        """Return the node of a batched product."""
        m, k, n = shape
        left, right = (batch, k, m, n), (batch, m, n, k)
        parts = [
            self.op("aten::bmm", (one[:3], (one[0], *one[2:])), self._gemm("nt", one))
            for one in (left, right)
        ]
        return self._node("BmmBackward0", sequence, ((batch, m, n),), *parts)

    def cat_backward(self, batch: int, width: int, sequence: int) -> Op:
        """Return the node of a concatenation: views, no kernel."""
        dims = ((batch, width), (), (), ())
        views = [self.op("aten::narrow", dims, self.op("aten::slice", dims))] * 2
        return self._node("CatBackward0", sequence, dims[:1], *views)

    def index_backward(self, dims: tuple[int, ...], sequence: int) -> Op:
        """Return the node of an indexing: zeros, then a scatter."""
        zeros = self.op("aten::zeros", ((),), self._elementwise("FillFunctor", dims, 1))
        put = self.kernel(_INDEX, 0, 3.0 * _FLOAT_BYTES * prod(dims))
        scatter = self.op("aten::_index_put_impl_", (dims, (), dims, (), ()), put)
        return self._node("IndexBackward0", sequence, (dims,), zeros, scatter)

    def loss_backward(self, batch: int, sequence: int) -> Op:
        """Return the node of the loss."""
        name = "BinaryCrossEntropyWithLogitsBackward0"
        inner = self.op("aten::sigmoid", ((batch, 1),), self._sigmoid(batch))
        scale = self._elementwise("mul_functor", (batch, 1), 3)
        last = self.op("aten::mul_", ((batch, 1), ()), scale)
        return self._node(name, sequence, ((),), inner, last)

    # Optimizer, copies, collectives

    def foreach_add(self, tensors: int, elements: int) -> Op:
        """Return the update of many parameters at once: a kernel per 100 tensors."""
        count = -(-tensors // 100)
        moved = 3.0 * _FLOAT_BYTES * elements / count
        kernels = [self.kernel(_FOREACH, 2.0 * elements, moved) for _ in range(count)]
        return self.op("aten::_foreach_add_", ((), (), ()), *kernels)

    def to_device(self, dims: tuple[int, ...], stream: int) -> Op:
        """Return the copy of a pinned tensor to the device, without waiting."""
        copy = self.copy("HtoD", _FLOAT_BYTES * prod(dims), stream, blocking=False)
        inner = self.op("aten::copy_", (dims, dims, ()), copy)
        empty = self.op("aten::empty_strided", ((), (), (), (), (), ()))
        rest = ((),) * 6
        middle = self.op("aten::_to_copy", (dims, *rest), empty, inner)
        return self.op("aten::to", (dims, *rest, ()), middle)

    def copy(
        self, direction: Direction, size_bytes: int, stream: int, *, blocking: bool
    ) -> Copy:
        """Return a copy between host and device, over PCIe."""
        kernel_ns = round(1_000 + size_bytes / 25)
        return Copy(stream, kernel_ns, direction, size_bytes, blocking)

    def item(self) -> Op:
        """Return `aten::item`: a blocking copy, then a wait for its stream."""
        copy = self.copy("DtoH", _FLOAT_BYTES, self.stream, blocking=True)
        wait = StreamSync(self.stream)
        inner = self.op("aten::_local_scalar_dense", ((),), copy, wait)
        return self.op("aten::item", ((),), inner)

    def collective(self, message: Message) -> Op:
        """Return a collective after the work so far on this thread's stream."""
        short = {"allreduce": "all_reduce", "all_to_all": "all_to_all"}[message.name]
        outer = {"allreduce": "allreduce_", "all_to_all": "alltoall_base_"}[
            message.name
        ]
        ready = f"{message.done} ready"
        moving_ns = 12_000 + message.elements * _FLOAT_BYTES // _LINK_BYTES_PER_NS
        nccl = Collective(message.stream, moving_ns, message.name, message.elements)
        dims = ((message.elements,),)
        inner = self.op(
            "record_param_comms",
            (*dims, (), (), (), (), (), ()),
            EventRecord(ready, self.stream),
            StreamWait(message.stream, ready),
            Annotation(f"nccl:{short}", (self.gap(), nccl, self.gap())),
            EventRecord(message.done, message.stream),
        )
        return self.op(f"c10d::{outer}", (*dims, (), (), ()), inner)
