"""Turn the nodes of an execution graph into a step to estimate.

Only ops that PyTorch dispatches count. A composite op becomes a node around its ops. Of
an op with its own kernel, a graph from a CPU keeps nothing below: that is specific to
the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import dropwhile
from typing import TYPE_CHECKING

from tracedb.errors import EstimateError
from tracedb.from_code import collectives, fused_bags, on_gpu, parts
from tracedb.from_code.graph_collectives import Groups, Naming
from tracedb.from_code.graph_memory import GraphMemory
from tracedb.from_code.graph_step import GraphStep, last_step
from tracedb.from_code.graph_values import (
    arguments,
    is_off_host,
    recorded_tensors,
    shapes,
    tensors,
)
from tracedb.from_code.ops import Argument, Dispatched, Shape
from tracedb.from_code.program import BACKWARD, PASSED_OVER, Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tracedb.from_code.graph import Graph, GraphNode, Values
    from tracedb.from_code.memory import Memory

_LOADER = "enumerate(DataLoader)"
_OPTIMIZER, _STEP = "Optimizer.", "Optimizer.step"
_FUSED = "aten::_fused_"
_LEAF = "torch::autograd::AccumulateGrad"
_COPIES = ("aten::_to_copy", "aten::copy_")
_LAYER = "aten::mkldnn_rnn_layer"
_CLASSES = "aten::one_hot"
_PUT = ("aten::index_put_", "aten::_index_put_impl_")
_BY_PLACES = ("aten::index", *_PUT)
_FILL = "aten::masked_fill_"
"""A mask and a number are put by filling."""
_ASKING = ("prim::", "profiler::", "aten::is_", "aten::resolve_", "aten::result_type")
"""Prefixes of ops that only query, and compute nothing."""


@dataclass(frozen=True)
class Unsure:
    """Something that the graph does not record, with the node that it concerns."""

    node: int
    name: str
    what: str

    def __str__(self) -> str:
        """The line for users."""
        return f"node {self.node} ({self.name}): {self.what}"


@dataclass
class Reader:
    """Turns the nodes of a step into a program, and notes what is unknown.

    In a graph from a CPU, all tensors are assumed to be on the GPU, except those of
    data loaders and the step counts of optimizers.
    """

    autograd: frozenset[int]
    is_of_gpu: bool
    groups: Naming
    unsure: list[Unsure] = field(default_factory=list)
    replaced: on_gpu.Replaced = field(default_factory=on_gpu.Replaced)
    _is_on_gpu: dict[object, bool] = field(default_factory=dict)
    _made: set[object] = field(default_factory=set)
    _arriving: set[object] = field(default_factory=set)
    _is_loading: bool = False
    _is_in_op: bool = False
    _is_fused: bool = False
    _phase: str = "forward"
    memory: GraphMemory = field(default_factory=GraphMemory)
    bags: fused_bags.FusedBags = field(default_factory=fused_bags.FusedBags)

    def program(self, step: GraphStep, gpu: str | None = None) -> Node:
        """The step as a tree of the ops that a GPU dispatches."""
        if not self.is_of_gpu:
            self.replaced = on_gpu.Replaced.of(step.nodes, gpu)
        root = Node("", "step")
        root.children = self._all(step.nodes)
        return root

    def _all(self, nodes: Iterable[GraphNode]) -> list[Node]:
        return [made for node in nodes for made in self._made_of(node)]

    def _made_of(self, given: GraphNode) -> list[Node]:
        is_within = given.is_range and self._is_in_op
        if given.name in PASSED_OVER or is_within:
            return self._all(given.children)
        if given.is_range:
            return [self._range(given)]
        node = Node(given.name, "op", is_autograd=given.thread in self.autograd)
        if given.sequence >= 0:
            node.arguments["Sequence number"] = given.sequence
        if given.name == collectives.NAME:
            self._collective(given, node)
        elif self.replaced.has(given):
            return self._as_on_gpu(given, node)
        elif _is_composite(given) or not (given.schema or _is_kernel(given)):
            node.children = self._below(given, node, self._inner(given))
        elif not self.is_of_gpu and (others := _done_by_others(given)):
            node.children = self._below(given, node, others)
        else:
            counted = [] if self.is_of_gpu else _counted(given)
            if not self.is_of_gpu:
                node.children = self._all([*_saved(given), *counted])
            self._dispatch(given, node)
            on_gpu.note_places(node.dispatched, [n.outputs[0].dims[0] for n in counted])
            if self.is_of_gpu:
                node.children = self._parts(given)
        return [node]

    def _parts(self, given: GraphNode) -> list[Node]:
        """The ops within an op that has its own kernel, in a graph from a GPU."""
        found = []
        for below in given.children:
            parts = self._parts(below)
            if below.is_range or below.name in PASSED_OVER:
                found += parts
                continue
            is_autograd = below.thread in self.autograd
            part = Node(below.name, "op", is_autograd=is_autograd, is_part=True)
            if below.schema and not _is_composite(below):
                part.dispatched = self._dispatched(below)
            part.children = parts
            found.append(part)
        return found

    def _inner(self, given: GraphNode) -> Sequence[GraphNode]:
        """The ops within a composite op, as a GPU dispatches them."""
        if self.is_of_gpu or given.name != _CLASSES:
            return given.children
        # Only on a CPU, it looks whether there are as many classes.
        return list(dropwhile(lambda n: n.name != "aten::zeros", given.children))

    def _below(
        self, given: GraphNode, node: Node, inner: Iterable[GraphNode]
    ) -> list[Node]:
        """The ops within a composite op or an autograd function."""
        before = self._phase, self._is_in_op
        self._is_in_op = True
        if node.is_backward:
            self._phase = "backward"
        if given.name == _LEAF:
            self.memory.gradient(given)
        found = self._all(inner)
        self._phase, self._is_in_op = before
        return found

    def _range(self, given: GraphNode) -> Node:
        """A range: data loaders stay on the host, optimizers use ops over lists."""
        before = self._is_loading, self._phase, self._is_fused
        self._is_loading |= given.name.startswith(_LOADER)
        is_optimizing = given.name.startswith(_OPTIMIZER)
        if is_optimizing:
            self._phase = "optimizer"
            self._is_fused = any(n.name.startswith(_FUSED) for n in given.walk())
        node = Node(given.name, "annotation", children=self._all(given.children))
        self._is_loading, self._phase, self._is_fused = before
        if given.name.startswith(_STEP) and not self.is_of_gpu:
            left = on_gpu.list_loop(node)
            if left:
                self._note(given, left)
        return node

    def _note(self, given: GraphNode, what: str) -> None:
        self.unsure.append(Unsure(given.id, given.name, what))

    def _collective(self, given: GraphNode, node: Node) -> None:
        message = self.groups.message(given)
        inputs, results = list(shapes(given.inputs)), list(shapes(given.outputs))
        node.dispatched = Dispatched(
            given.name, [list(inputs)] if inputs else [], results, is_on_gpu=True,
            is_view=False, writes=True, called=message, line=f"node {given.id}",
        )  # fmt: skip
        if message.kind == collectives.WAIT:
            self._arriving.clear()
            return
        self._arriving |= {storage for storage, _ in tensors([*given.outputs])}
        self._arriving |= {storage for storage, _ in tensors([*given.inputs])}
        if message.ranks is None and inputs:
            self._note(given, "the number of ranks is not recorded (`--ranks`)")

    def _as_on_gpu(self, given: GraphNode, node: Node) -> list[Node]:
        """What a GPU dispatches in place of a CPU op; empty if done by another node."""
        is_forward = bool(given.schema)
        for inner in _within(given) if is_forward else ():
            self.memory.within(inner, self._phase)
        for made in [given] if is_forward else _within(given):
            self._enter(made.outputs, is_on_gpu=True)
            phase = self._phase if is_forward else "backward"
            self.memory.made(made, phase, is_view=made.is_view)
        made_on_gpu = self.replaced.instead(given)
        if is_forward:
            node.children = made_on_gpu
            return [node]
        return [
            replace(node, name=BACKWARD + function.name, children=[function])
            for function in made_on_gpu
        ]

    def _dispatch(self, given: GraphNode, node: Node) -> None:
        """Fill in the op's arguments, results and device."""
        node.dispatched = self._dispatched(given)
        if not self.is_of_gpu:
            on_gpu.note_bags(node.dispatched)
        node.dispatched.awaits = (0,) if self._awaits(given) else ()
        is_on_gpu = node.dispatched.is_on_gpu
        node.name = node.dispatched.name
        self.memory.op(
            given, self._phase, is_on_gpu=is_on_gpu, is_view=node.dispatched.is_view
        )
        self._enter(given.outputs, is_on_gpu=is_on_gpu)
        self.bags.note(given)
        is_foreign = "::" in given.name and not given.name.startswith("aten::")
        if is_on_gpu and is_foreign and not fused_bags.is_known(given.name):
            self._note(given, "not a PyTorch op; one kernel is assumed")
        if given.name.startswith(_LAYER):
            self._note(given, "a recurrent layer; one kernel is assumed, not many")

    def _dispatched(self, given: GraphNode) -> Dispatched:
        return Dispatched(
            on_gpu.NAMES.get(given.name, given.name),
            _given(given),
            list(shapes(given.outputs)) or _written(given),
            is_on_gpu=self._runs_on_gpu(given),
            is_view=given.is_view,
            transfer=self._transfer(given),
            writes=given.writes or _is_kernel(given),
            sorts=self.bags.sorted_by(given),
            is_made_by_parts=self.is_of_gpu and parts.make_all(given),
        )

    def _awaits(self, given: GraphNode) -> bool:
        """Whether it is the first op to use the result of a collective."""
        if not self._arriving or given.is_view:
            return False
        used = {storage for storage, _ in tensors([*given.inputs, *given.outputs])}
        if not used & self._arriving:
            return False
        self._arriving.clear()
        return True

    def _runs_on_gpu(self, given: GraphNode) -> bool:
        """Whether an op runs on the GPU: where its tensors are, scalars aside."""
        if given.name.startswith(_ASKING):
            return False
        known = list(tensors(given.inputs)) or list(tensors(given.outputs))
        deciding = [one for one in known if one[1].dims] or known
        if self.is_of_gpu:
            return any(
                is_off_host(one)
                for one in recorded_tensors([*given.inputs, *given.outputs])
            )
        if self._is_loading or (self._phase == "optimizer" and self._counts(known)):
            return False
        return not known or any(self._is_on_gpu.get(s, True) for s, _ in deciding)

    def _counts(self, known: Sequence[tuple[object, Shape]]) -> bool:
        """Whether an op increments a step count, which optimizers do on the host.

        All its tensors are scalars, and some existed before the step. Fused optimizers
        count on the GPU.
        """
        if self._is_fused:
            return False
        is_single = all(not shape.dims for _, shape in known)
        return is_single and any(storage not in self._made for storage, _ in known)

    def _enter(self, results: Sequence[Values], *, is_on_gpu: bool) -> None:
        for storage, _ in tensors(results):
            self._is_on_gpu[storage] = is_on_gpu
            self._made.add(storage)

    def _transfer(self, given: GraphNode) -> str:
        """The direction of a copy between host and GPU; empty for other ops."""
        if not self.is_of_gpu or given.name not in _COPIES:
            return ""
        ends = [
            is_off_host(one)
            for one in recorded_tensors([*given.inputs, *given.outputs])
        ]
        into = ends[0] if given.name == "aten::copy_" else ends[-1]
        source = ends[1] if given.name == "aten::copy_" else ends[0]
        if into == source:
            return ""
        asked = given.argument("non_blocking")
        is_async = asked is not None and asked.value is True
        return ("HtoD" if into else "DtoH") + " async" * is_async


def is_of_gpu(graph: Graph) -> bool:
    """Whether any tensor is on a device other than the CPU."""
    return any(
        is_off_host(tensor)
        for node in graph.nodes.values()
        for tensor in recorded_tensors([*node.inputs, *node.outputs])
    )


def _given(given: GraphNode) -> list[Argument]:
    """The arguments, without the tensor that is only written to, if there is one."""
    found = list(arguments(given.inputs))
    return found[:-1] if given.overload.endswith("out") else found


def _written(given: GraphNode) -> list[Shape]:
    """The results of a kernel without a schema, which are among its arguments."""
    return list(shapes(given.inputs)) if _is_kernel(given) else []


def _is_kernel(given: GraphNode) -> bool:
    """Whether it launches kernels, though it is no op with a schema."""
    return _is_generated(given) or fused_bags.is_gradient(given.name)


def _is_generated(given: GraphNode) -> bool:
    """Whether it is a compiler-generated kernel, such as Triton's."""
    backend = given.attributes.get("kernel_backend") or ""
    return bool(backend) or (given.name.startswith("triton_") and not given.children)


def _done_by_others(given: GraphNode) -> list[GraphNode]:
    """The ops that do all the work of an op on any device, if there are any."""
    if given.name in parts.OF_SEVERAL:
        return given.children
    if given.name not in _PUT:
        return []
    return [node for node in given.walk() if node.name == _FILL][:1]


def _counted(given: GraphNode) -> list[GraphNode]:
    """The ops that turn masks into places, by which any device takes or puts."""
    if given.name not in _BY_PLACES:
        return []
    return [node for node in given.walk() if node.name == "aten::nonzero"]


def _saved(given: GraphNode) -> Iterable[GraphNode]:
    """The copy of what an op in place overwrites, where its gradient needs that."""
    if not (given.writes and given.name.endswith("_") and given.inputs):
        return []
    written = {storage for storage, _ in tensors(given.inputs[:1])}
    return [
        node
        for node in given.children
        if node.name == "aten::clone"
        and written & {storage for storage, _ in tensors(node.inputs)}
    ]


def _within(given: GraphNode) -> Iterator[GraphNode]:
    """The ops with a schema below a node."""
    return (node for node in given.walk() if node is not given and node.schema)


def _is_composite(given: GraphNode) -> bool:
    """Whether an op has no kernel of its own, and calls other ops."""
    if given.name.startswith(("c10d::", "_c10d_functional::")):
        return True
    return given.overload in parts.known("implicit")


@dataclass(frozen=True)
class Program:
    """A step of an execution graph; the TF32 switches have PyTorch's defaults."""

    root: Node
    memory: Memory
    source: str
    unsure: tuple[str, ...]
    batch: int | None = None
    tf32_products: bool = False
    tf32_convolutions: bool = True


def subject(
    graph: Graph, ranks: int | None = None, *, gpu: str | None = None
) -> Program:
    """The last whole step of an execution graph, on a GPU of this name.

    Raises `EstimateError` if it has no ops on tensors.
    """
    groups = Groups.of(graph.nodes.values(), ranks)
    return program(graph, last_step(graph), groups, gpu=gpu)


def program(
    graph: Graph, step: GraphStep, groups: Naming, *, gpu: str | None = None
) -> Program:
    """A step of an execution graph, whose collectives `groups` names.

    Raises `EstimateError` if it has no ops on tensors.
    """
    reader = Reader(step.autograd, is_of_gpu(graph), groups)
    root = reader.program(step, gpu)
    if not any(node.dispatched for node in root.walk()):
        raise EstimateError(f"{graph.path}: {step.words} has no ops on tensors")
    left_out = (
        f"thread {thread}: left out {count} ops, because it is neither the main thread "
        "nor autograd's"
        for thread, count in sorted(step.left_out.items())
    )
    unsure = tuple(map(str, sorted(reader.unsure, key=lambda one: one.node)))
    words = f"{step.words}, recorded on a {'GPU' if reader.is_of_gpu else 'CPU'}"
    if graph.recorded_batch is not None:
        words += f" with batch {graph.recorded_batch:,}"
    lines = (*unsure, *graph.unsure, *left_out)
    return Program(root, reader.memory.peak(), words, lines, graph.batch)
