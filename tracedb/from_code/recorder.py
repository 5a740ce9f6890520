"""Record every op that PyTorch dispatches: arguments, results, device and module."""

from __future__ import annotations

import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._C._profiler import _RecordFunctionFast
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tracedb.from_code import (
    casting,
    collectives,
    composed,
    fake_cuda,
    in_place,
    place,
    roomy,
    several,
    strides,
    synchronized,
)
from tracedb.from_code.checks import Checks, known_value
from tracedb.from_code.collectives import Message
from tracedb.from_code.cpu import workspace
from tracedb.from_code.draws import Draws
from tracedb.from_code.formulas import Formulas
from tracedb.from_code.known import KNOWN, know, know_made, view_of_known
from tracedb.from_code.memory import CALLER, Holding, Ledger, workspace_of
from tracedb.from_code.ops import HIDDEN, MARK, Argument, Dispatched, Ordering, Shape
from tracedb.from_code.selecting import Selecting
from tracedb.from_code.sparse import Sparse, dense_parts
from tracedb.from_code.spread import Spread
from tracedb.from_code.tensors import tensors_of
from tracedb.from_code.unknown import Assumptions, Unknown, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_NO_WORK = ("prim", "profiler")
"""Namespaces of ops that only query, or mark ranges."""

_BAGS = (
    torch.ops.aten._embedding_bag.default,  # noqa: SLF001 (it has no public name)
    torch.ops.aten._embedding_bag_forward_only.default,  # noqa: SLF001
)
_ARE_EQUAL = (torch.ops.aten.allclose.default, torch.ops.aten.equal.default)
_SELECT = torch.ops.aten.select.int
_FUNCTORCH: Any = torch._C._functorch  # noqa: SLF001 (it has no public name)
_DEVICE, _META = torch.ops.prim.device.default, torch.device("meta")

_TYPES = {
    torch.float64: "double",
    torch.float32: "float",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int",
    torch.int32: "int",
    torch.int16: "short int",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.bool: "bool",
    torch.complex64: "c10::complex<float>",
    torch.complex128: "c10::complex<double>",
}
"""Types as the profiler names them."""


def _is_wrapper(kind: type) -> bool:
    """Whether a class is a wrapper subclass, whose inner tensors hold the memory."""
    return hasattr(kind, "__tensor_flatten__")


def _makes_like(op: str) -> bool:
    """Whether an op makes a new tensor of which another one only tells the form."""
    return op.endswith("_like") or op.startswith("aten::new_")


def shape_of(tensor: torch.Tensor) -> Shape:
    """A tensor's sizes and type, as the profiler names them."""
    name = _TYPES.get(tensor.dtype, str(tensor.dtype))
    return Shape(tuple(map(int, tensor.shape)), name, tensor.element_size())


def _argument(value: object) -> Argument:
    if isinstance(value, torch.Tensor):
        return shape_of(value)
    if isinstance(value, (list, tuple)) and list(tensors_of(value)):
        return [shape_of(one) for one in tensors_of(value)]
    return "" if value is None else str(value)


@dataclass
class Side:
    """The device (GPU or host) of tensors that are created without inputs."""

    is_gpu_named: bool = False
    is_on_gpu: bool = True
    transfer: str = ""
    is_given: bool = False
    """Whether a call gives the device, also of what is made like another tensor."""

    @contextmanager
    def placing(
        self, *, on_gpu: bool, transfer: str = "", is_given: bool = False
    ) -> Iterator[None]:
        """Place new tensors within the block; `transfer` is a copy's direction."""
        before = self.is_on_gpu, self.transfer, self.is_given
        self.is_on_gpu, self.transfer, self.is_given = on_gpu, transfer, is_given
        try:
            yield
        finally:
            self.is_on_gpu, self.transfer, self.is_given = before


@dataclass
class Now:
    """What is being executed: phase and modules."""

    phase: str = "setup"
    modules: list[str] = field(default_factory=list)

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Set the phase within the block."""
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before

    @property
    def pass_(self) -> str:
        """The phase; PyTorch tells whether autograd is running."""
        is_backward = torch._C._current_graph_task_id() != -1  # noqa: SLF001 (as its ModTracker)
        return "backward" if is_backward and self.phase == "forward" else self.phase

    @property
    def module(self) -> str:
        """The path of the innermost module."""
        return self.modules[-1] if self.modules else ""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs ops on fake tensors, and records each with its results."""

    def __init__(self, fake: FakeTensorMode, *, has_gpu: bool = True) -> None:
        """Start empty; `fake` computes sizes and types."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = fake
        self.ledger = Ledger()
        self.side = Side()
        self.now = Now()
        self.ops: dict[int, Dispatched] = {}
        self.assumptions = Assumptions()
        self.measured: dict[int, workspace.Call] = {}
        """Calls on a CPU, by the number of the op."""
        self.checks = Checks()
        self.spread = Spread()
        self.draws = Draws(self.assumptions)
        self.selecting = Selecting(self)
        self.formulas = Formulas(self)
        self.sparse = Sparse(self)
        self.has_gpu = has_gpu
        self.is_running = False
        self.is_number_passed_on = False
        """Whether a number that is read stays unknown to the code."""
        self._twins: dict[int, tuple[weakref.ref[torch.Tensor], FakeTensor]] = {}
        """By the address of a real tensor, for as long as it lives."""
        self._recorded = 0
        self._is_unseen = False
        self.wrapped: object = None
        """The op that a wrapper of tensors was called for last."""
        self._channels: list[str] = []
        """The groups of the collectives so far, in the order of the calls."""
        self._arriving: dict[int, tuple[Holding, int]] = {}

    def __torch_dispatch__(
        self,
        func: Any,  # noqa: ANN401 (an overload of an op; PyTorch has no public name)
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """Run one op on fake tensors."""
        kwargs = kwargs or {}
        if any(map(_is_wrapper, types)):
            # A wrapper (such as DTensor) dispatches its inner tensors.
            self.wrapped = func
            return NotImplemented
        if func is _DEVICE and isinstance(args[0], FakeTensor):
            # Fast path: PyTorch asks for the device several times per op.
            is_within = args[0].fake_mode.in_kernel_invocation
            return _META if is_within else args[0].fake_device
        tensors = list(tensors_of([args, kwargs]))
        apart: Callable[..., object] | None = partial(self._form, func)
        if not self._is_unseen:
            apart = self._apart(func, args, tensors)
        if apart is not None:
            return apart(*args, **kwargs)
        with self._running():
            if func.namespace in _NO_WORK or _is_meta(tensors, kwargs):
                return func(*args, **kwargs)
            if getattr(kwargs.get("device"), "type", "") == "cuda":
                # PyTorch's own code passes on a tensor's device, bypassing `FakeGpu`.
                kwargs = {**kwargs, "device": torch.device("cpu")}
                with self.side.placing(on_gpu=True):
                    return self.__torch_dispatch__(func, types, args, kwargs)
            # `torch.tensor` of a list first makes a host tensor, which is not tracked.
            self.ledger.now += 1
            number = self.ledger.now
            is_made = "lift" in func.name()
            given = [] if is_made else list(map(self.holding, tensors))
            with _RecordFunctionFast(f"{MARK}{number}"), _unrecorded():
                result = self._run(func, args, kwargs)
            self._note(number, func, (args, kwargs), result, given)
            self.checks.follow(func, args, tensors, result)
            self.spread.follow(func, args, result)
            self.draws.follow(tensors, result)
        return result

    def _apart(
        self,
        func: Any,  # noqa: ANN401
        args: tuple[object, ...],
        tensors: list[torch.Tensor],
    ) -> Callable[..., object] | None:
        """What does the same as an op by others that are recorded, if it has any."""
        if func.namespace in composed.NAMESPACES:
            found = composed.parts(func, self)
            return None if found is None else self.recorded(found)
        found = in_place.parts(func, tensors, self) or self.selecting.parts(func, args)
        if found is not None:
            return self.recorded(found)
        usual = self.formulas.parts(func, args) or several.parts(func, self)
        if usual is not None:
            return usual
        return self.sparse.parts(func, args, tensors)

    def recorded(self, apart: Callable[..., object]) -> Callable[..., object]:
        """The same function, whose ops are recorded while another one is executed."""

        def run(*args: object, **kwargs: object) -> object:
            with self:
                return apart(*args, **kwargs)

        return run

    def collective(
        self, message: Message, given: list[torch.Tensor], made: list[torch.Tensor]
    ) -> int | None:
        """Record a collective with its inputs and results.

        Return its number, or None if it is not on the GPU.
        """
        inputs, results = list(map(shape_of, given)), list(map(shape_of, made))
        holdings = list(map(self.holding, [*given, *made]))
        is_on_gpu = self._is_on_gpu([*inputs, *results], holdings)
        op = Dispatched(
            collectives.NAME, [inputs] if inputs else [], results,
            is_on_gpu=is_on_gpu, is_view=False, writes=True, line=place.of_caller(),
            called=message if is_on_gpu else None, stream=fake_cuda.current(),
        )  # fmt: skip
        self._called(op)
        if not is_on_gpu:
            return None
        self._channels.append(message.group)
        number = len(self._channels)
        if not message.is_between_two:
            # Writers of its inputs wait, too.
            self._arriving |= {id(one): (one, number) for one in holdings}
        return number

    def wait(self, number: int, *, is_between_two: bool = False) -> None:
        """Record that later ops on this stream wait for the results of a collective.

        A send or a receive has a stream of its own, apart from all others.
        """
        op = Dispatched(
            collectives.NAME, [], [], is_on_gpu=True, is_view=False, writes=True,
            line=place.of_caller(), called=Message(collectives.WAIT, None),
            awaits=(self._since(number),), stream=fake_cuda.current(),
        )  # fmt: skip
        self._called(op)
        if not is_between_two and not op.stream:
            self._arrived(number)

    def record_event(self, stream: int) -> int:
        """Record an event on a stream; return its number."""
        self._recorded += 1
        self._order("cudaEventRecord", "", stream)
        return self._recorded

    def wait_event(self, number: int, stream: int) -> None:
        """Record that a stream waits for an event."""
        self._order("cudaStreamWaitEvent", "stream", stream, number)

    def reach_event(self, number: int) -> None:
        """Record that the host waits for an event."""
        self._order("cudaEventSynchronize", "host", 0, number)

    def reach_stream(self, stream: int) -> None:
        """Record that the host waits for a stream."""
        self._order("cudaStreamSynchronize", "host for stream", stream)

    def _order(
        self, name: str, waiter: str, stream: int, number: int | None = None
    ) -> None:
        back = 0 if number is None else self._recorded - number
        op = Dispatched(
            name, [], [], is_on_gpu=False, is_view=False, line=place.of_caller(),
            stream=stream, ordering=Ordering(waiter, back),
        )  # fmt: skip
        self._called(op)

    def wait_for(self, tensor: torch.Tensor) -> None:
        """Record that later ops wait for the collective that makes a tensor."""
        known = self._arriving.get(id(self.holding(tensor)))
        if known is not None:
            self.wait(known[1])

    def is_on_cuda(self, tensor: torch.Tensor) -> bool:
        """Whether CUDA's kernels compute with a tensor."""
        return self.has_gpu and self.holding(tensor).is_on_gpu

    def computed(
        self,
        name: str,
        given: list[Any],
        made: list[torch.Tensor],
        counted_as: tuple[str, list[Any]] | None = None,
        *,
        sorts: tuple[int, int] | None = None,
    ) -> None:
        """Note an op that was not dispatched, with its arguments and results.

        `counted_as` is an op that does as much, if its own arguments do not show how
        much; `sorts` is how many keys it sorts, and their bits.
        """
        for one in made:
            know(one, None)
        like, arguments = counted_as or ("", [])
        op = Dispatched(
            name, list(map(_argument, given)), list(map(shape_of, made)),
            is_on_gpu=any(self.holding(t).is_on_gpu for t in tensors_of(given)),
            is_view=False, writes=True, line=place.of_caller(), sorts=sorts,
            counted_as=(like, tuple(map(_argument, arguments))) if like else None,
        )  # fmt: skip
        self._called(op)

    def _called(self, op: Dispatched) -> None:
        """Record a call in order among the ops."""
        self.ledger.now += 1
        self.ops[self.ledger.now] = op
        with _RecordFunctionFast(f"{MARK}{self.ledger.now}"):
            pass

    def _awaits(self, func: Any, holdings: list[Holding]) -> tuple[int, ...]:  # noqa: ANN401
        """The collectives whose results an op is the first to use.

        For each, how many came after it. Ops on a side stream wait for events alone.
        """
        if not self._arriving or func.is_view or fake_cuda.current():
            return ()
        known = [self._arriving.get(id(one)) for one in holdings]
        numbers = sorted({one[1] for one in known if one is not None})
        for number in numbers:
            self._arrived(number)
        return tuple(map(self._since, numbers))

    def _since(self, number: int) -> int:
        """How many collectives were called after one."""
        return len(self._channels) - number

    def _arrived(self, number: int) -> None:
        """Mark a collective, and all of its group before it, as complete."""
        group = self._channels[number - 1]
        self._arriving = {
            holding: (one, other)
            for holding, (one, other) in self._arriving.items()
            if other > number or self._channels[other - 1] != group
        }

    @contextmanager
    def _running(self) -> Iterator[None]:
        before, self.is_running = self.is_running, True
        try:
            yield
        finally:
            self.is_running = before

    def _run(
        self,
        func: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        if func is torch.ops.aten._local_scalar_dense.default:  # noqa: SLF001
            (tensor,) = tensors_of(args)
            return self._number(tensor)
        sized = synchronized.SIZED.get(func)
        if sized is not None:
            return sized(*args)
        try:
            result: Any = view_of_known(func, args, kwargs)
            if result is NotImplemented:
                result = func(*args, **kwargs)
            if func is _SELECT and not isinstance(args[0], FakeTensor):
                # Recurrent layers ask for the first size of a packed batch.
                with _disable_current_modes():
                    result.constant = func(*args, **kwargs)
            self.draws.draw(func, args, result)
            made = self._bags(args, result) if func in _BAGS else result
            made = workspace.kept(func, args, casting.of_norm(func, args, made))
            if not self.has_gpu:
                made = strides.as_real(func, args, made)
            know_made(func, args, kwargs, made)
            return made  # noqa: TRY300 (`selecting` makes the others)
        except (DataDependentOutputException, DynamicOutputShapeException):
            if synchronized.takes_all(func):
                return torch.clone(*tensors_of(args[:1]))
            if func in _ARE_EQUAL:
                return bool(Unknown())
            made = self.selecting.result(func, args, kwargs)
            if made is not NotImplemented:
                return made
            refuse(f"{func}".removesuffix(".default"))

    def known_number(self, tensor: torch.Tensor) -> float | None:
        """The number in a tensor: known if it is real, made from one, or a check."""
        with _unrecorded():
            return self._known_number(tensor)

    def _known_number(self, tensor: torch.Tensor) -> float | None:
        each = known_value(tensor)
        if each is not None:
            return each
        if self.now.phase == "optimizer":
            # An optimizer counts its steps: all of them are to be alike.
            return None
        found: Any = self.known_values(tensor)
        while isinstance(found, list):
            (found,) = found
        return found  # type: ignore[no-any-return]

    def known_values(self, tensor: torch.Tensor) -> Any:  # noqa: ANN401 (numbers, or one)
        """The values of a tensor that is real, or was made from Python's numbers."""
        self.draws.tell(tensor)
        real = tensor.constant if isinstance(tensor, FakeTensor) else tensor
        if real is None:
            return None
        with _disable_current_modes(), torch._C.DisableTorchFunction():  # noqa: SLF001
            return real.tolist()

    def _number(self, tensor: torch.Tensor) -> float:
        """The number that PyTorch's own code reads; 0 if unknown."""
        known = self._known_number(tensor)
        if known is not None:
            return known
        is_size = not (tensor.is_floating_point() or tensor.dtype is torch.bool)
        if is_size and not self.is_number_passed_on:
            refuse("a size")
        return 0 if is_size else 0.0

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Within the block, tensors are what they are, and the profiler is blind."""
        with self._running(), _unrecorded():
            yield

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Within the block, ops tell the sizes of their results, unrecorded."""
        before, self._is_unseen = self._is_unseen, True
        try:
            yield
        finally:
            self._is_unseen = before

    def _form(self, func: Callable[..., object], *args: object, **given: Any) -> object:  # noqa: ANN401
        if getattr(given.get("device"), "type", "") == "cuda":
            given["device"] = torch.device("cpu")
        with self._running(), _unrecorded():
            return func(*args, **given)

    def leave_out(self) -> None:
        """Leave out the op that is being executed; those that it calls stay."""
        with _RecordFunctionFast(HIDDEN):
            pass

    def _bags(self, args: tuple[Any, ...], result: Any) -> object:  # noqa: ANN401
        """The results of an embedding bag: on a GPU also the bag of each index."""
        found, of_bags, *rest = result
        if not of_bags.numel() and self.is_on_cuda(args[0]):
            of_bags = torch.empty_like(args[1])
        return found, of_bags, *rest

    def holding(self, tensor: torch.Tensor) -> Holding:
        """The holding of a tensor's storage; added now if it existed before the run.

        For a sparse tensor, that of its values.
        """
        while _is_wrapper(type(tensor)):
            inner, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
            tensor = getattr(tensor, inner[0])
        while _FUNCTORCH.is_functorch_wrapped_tensor(tensor):
            tensor = _FUNCTORCH.get_unwrapped(tensor)
        with self._running(), torch._C.DisableTorchFunction():  # noqa: SLF001 (it has no public name)
            tensor, *_ = dense_parts(tensor)
            if not isinstance(tensor, FakeTensor):
                tensor = self._twin(tensor)
            storage = tensor.untyped_storage()
        known = self.ledger.find(storage)
        if known is not None:
            return known
        size = 0 if _is_meta([tensor], {}) else storage.nbytes()
        there = Holding(
            size, 0, True, CALLER, "", "setup",  # noqa: FBT003
            tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."),
        )  # fmt: skip
        return self.ledger.add(storage, there)

    def load(self, tensor: torch.Tensor) -> None:
        """Place a tensor that a data loader made on the host, if code names a GPU.

        Its whole numbers (labels, masks) are known, so what is selected by them is.
        """
        before = len(self.ledger.held)
        loaded = self.holding(tensor)
        loaded.is_on_gpu = not self.side.is_gpu_named
        if len(self.ledger.held) > before:
            # The batch before lives on until the code names the new one.
            self.ledger.now += 1
            loaded.begin = self.ledger.now
        is_fake = isinstance(tensor, FakeTensor)  # and knows its values by itself
        if not is_fake and not tensor.is_floating_point() and tensor.numel() <= KNOWN:
            with _disable_current_modes():
                values = tensor.clone()
            know(self._twin(tensor), values)

    def known_on_host(self, values: torch.Tensor) -> torch.Tensor:
        """A tensor on the host whose values are known: those of a real one."""
        with _disable_current_modes():
            made: torch.Tensor = self.fake.from_tensor(values)
        know(made, values)
        self.holding(made).is_on_gpu = False
        return made

    def _twin(self, tensor: torch.Tensor) -> FakeTensor:
        """The fake tensor that represents a real one."""
        number = id(tensor)
        if number not in self._twins:
            there = weakref.ref(tensor, lambda _: self._twins.pop(number))
            with _disable_current_modes():
                self._twins[number] = there, self.fake.from_tensor(tensor)
        return self._twins[number][1]

    def _note(
        self,
        number: int,
        func: Any,  # noqa: ANN401
        given: tuple[tuple[object, ...], dict[str, object]],
        result: object,
        holdings: list[Holding],
    ) -> None:
        args, kwargs = given
        schema = func._schema  # noqa: SLF001 (it has no public name)
        inputs = [shape_of(t) for t in tensors_of([args, kwargs])]
        is_on_gpu = (
            self.side.is_on_gpu
            if self.side.is_given and _makes_like(schema.name)
            else self._is_on_gpu(inputs, holdings)
        )
        self.ops[number] = Dispatched(
            schema.name,
            _in_order(schema, args, kwargs),
            [shape_of(t) for t in tensors_of(result)],
            is_on_gpu,
            is_view=bool(func.is_view),
            transfer=self.side.transfer if "_to_copy" in schema.name else "",
            writes=bool(schema.is_mutable),
            line=place.of_caller(),
            awaits=self._awaits(func, holdings),
            stream=fake_cuda.current(),
        )
        before = self.measured.values()
        called = None if self.has_gpu else workspace.call(func, args, before)
        if called is not None:
            self.measured[number] = called
        is_on_cpu = not (self.has_gpu and is_on_gpu)
        beside = roomy.grow(func, args, kwargs, result, is_on_cpu=is_on_cpu)
        if is_on_cpu:
            beside += casting.beside(func, args, result)
        if beside:
            held = workspace_of(schema.name, beside, number, is_on_gpu=is_on_gpu)
            self.ledger.held.append(held)
        for tensor in tensors_of(result):
            self._enter(tensor, schema.name, number, is_on_gpu=is_on_gpu)

    def _is_on_gpu(self, inputs: list[Shape], holdings: list[Holding]) -> bool:
        """Whether an op runs on the GPU: where its tensors are, scalars aside."""
        if self.side.transfer or not holdings:
            return self.side.is_on_gpu
        pairs = zip(inputs, holdings, strict=True)
        deciding = [h for shape, h in pairs if shape.dims] or holdings
        return any(holding.is_on_gpu for holding in deciding)

    def _enter(
        self, tensor: torch.Tensor, name: str, number: int, *, is_on_gpu: bool
    ) -> None:
        storage = tensor.untyped_storage()
        if self.ledger.find(storage) is None:
            made = Holding(
                storage.nbytes(), number, is_on_gpu, name, self.now.module,
                self.now.pass_, tuple(tensor.shape),
                str(tensor.dtype).removeprefix("torch."),
                kind="input" if self.side.transfer else None,
            )  # fmt: skip
            self.ledger.add(storage, made)


def _is_meta(tensors: list[torch.Tensor], kwargs: dict[str, Any]) -> bool:
    """Whether an op has only forms of tensors, which hold and run nothing."""
    if "device" in kwargs and kwargs["device"] is not None:
        return bool(kwargs["device"] == _META)
    return bool(tensors) and all(
        isinstance(one, FakeTensor) and one.fake_device == _META for one in tensors
    )


def _in_order(
    schema: Any,  # noqa: ANN401
    args: tuple[object, ...],
    kwargs: dict[str, object],
) -> list[Argument]:
    """All arguments of the schema, in its order, but for what is only written to."""
    others = [one for one in schema.arguments[len(args) :] if not one.is_out]
    named = [kwargs.get(other.name, other.default_value) for other in others]
    given = (*args, *named)
    again = set(_again(given))
    return [
        replace(shape_of(value), is_again=True)
        if isinstance(value, torch.Tensor) and ordinal in again
        else _argument(value)
        for ordinal, value in enumerate(given)
    ]


def _again(given: tuple[object, ...]) -> Iterator[int]:
    """Where a tensor is the same memory as an earlier one."""
    known: set[tuple[int, int, int]] = set()
    for ordinal, one in enumerate(given):
        if not isinstance(one, torch.Tensor) or _is_wrapper(type(one)):
            continue
        storage = one.untyped_storage()._cdata  # noqa: SLF001 (it has no public name)
        memory = (storage, int(one.storage_offset()), one.numel())
        if memory in known:
            yield ordinal
        known.add(memory)


@contextmanager
def _unrecorded() -> Iterator[None]:
    """Hide the ops of shape inference from the profiler: no GPU run has them."""
    # It has no public name; PyTorch's own DTensor tests use it.
    enable = torch._C._autograd._enable_record_function  # noqa: SLF001
    enable(False)  # noqa: FBT003 (positional only)
    try:
        yield
    finally:
        enable(True)  # noqa: FBT003
