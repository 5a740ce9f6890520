"""Run a training step on fake tensors: its dispatched ops and its allocations.

The step runs twice. The first run creates what only first steps create (gradients,
optimizer state); the second one is estimated. PyTorch's own profiler records how ops
nest, the backward pass and the optimizer's ranges.
"""

from __future__ import annotations

import gc
import json
import logging
import warnings
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules import module as modules
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer, optimizer
from torch.profiler import ProfilerActivity, record_function

from tracedb.errors import EstimateError, TracedbError
from tracedb.from_code import fake_cuda, needs_torch, place
from tracedb.from_code.alike import Recording, alike
from tracedb.from_code.blame import first
from tracedb.from_code.causal import causal
from tracedb.from_code.changed import changed
from tracedb.from_code.clock import DEFAULT_STREAM
from tracedb.from_code.clusters import clusters
from tracedb.from_code.cpu import workspace
from tracedb.from_code.fake_cpu import FakeCpu, absent
from tracedb.from_code.fake_gpu import FakeGpu, present
from tracedb.from_code.fake_ranks import FakeRanks
from tracedb.from_code.in_place import linear_layers
from tracedb.from_code.job import Job
from tracedb.from_code.known import KNOWN
from tracedb.from_code.lazy import lazy_modules, refuse_stale
from tracedb.from_code.loading import loading
from tracedb.from_code.memory import CUDA_BLOCK, Holding, Memory, peak
from tracedb.from_code.numbers import of_unknown
from tracedb.from_code.ops import MODULE, Dispatched
from tracedb.from_code.recorder import Recorder
from tracedb.from_code.refused import reason, refusing
from tracedb.from_code.saving import saving
from tracedb.from_code.sparse import dense_parts
from tracedb.from_code.tensors import tensors_of
from tracedb.from_code.threads import one_thread
from tracedb.from_code.unknown import is_about, refuse, telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager


@dataclass(frozen=True)
class FakeStep:
    """A recorded step: profiler events, ops by number, and allocations.

    Allocation times count ops from the start of the step; `names` has the ops' names.
    """

    events: list[dict[str, Any]]
    ops: dict[int, Dispatched]
    held: list[Holding]
    names: dict[int, str]
    tf32_products: bool
    tf32_convolutions: bool
    block: int = CUDA_BLOCK
    """[B] Allocations are rounded up to multiples of this."""
    assumed: tuple[str, ...] = ()
    """Assumptions about PyTorch and about values, one line each."""
    shared: tuple[str, ...] = ()
    """Known numbers that the rank gives to collectives whose results its code reads."""
    shared_lines: tuple[str, ...] = ()
    """What is assumed about them, one line each."""

    @cached_property
    def memory(self) -> Memory:
        """The step's peak memory, in blocks of the device's allocator."""
        return peak(self.held, self.names, block=self.block)


class _Fakes(FakeTensorMode):  # type: ignore[no-untyped-call]
    """A fake tensor mode that copies share: mixing two modes is slow."""

    def __deepcopy__(self, _memo: object) -> _Fakes:
        """Return itself: tensors of a copied layer refer to their mode."""
        return self


class FakeRun:
    """An environment in which code runs on fake tensors."""

    def __init__(self, gpu: str | None, job: Job | None = None) -> None:
        """Prepare for a GPU of that name (None: a CPU) and for the ranks of a job."""
        self._fake = _Fakes(allow_non_fake_inputs=True)
        self._recorder = Recorder(self._fake, has_gpu=gpu is not None)
        self._gpu = (
            FakeCpu(self._recorder) if gpu is None else FakeGpu(self._recorder, gpu)
        )
        self._name = gpu
        self._ranks = FakeRanks(self._recorder, job or Job())
        self._observer = _Observer(self._recorder)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run the block on fake tensors, and restore PyTorch afterwards."""
        with ExitStack() as stack:
            # Copying a fake tensor asks for its address, which is never used.
            stack.enter_context(warnings.catch_warnings())
            warnings.filterwarnings("ignore", "Accessing the data pointer of FakeT")
            stack.enter_context(changed(fake_tensor, {"CONSTANT_NUMEL_LIMIT": KNOWN}))
            stack.enter_context(self._fake)
            stack.enter_context(_quiet())
            stack.enter_context(self._present())
            stack.enter_context(telling(self._recorder.assumptions))
            stack.enter_context(of_unknown())
            stack.enter_context(causal(self._recorder.assumptions))
            stack.enter_context(clusters(self._recorder))
            stack.enter_context(linear_layers())
            stack.enter_context(loading(self._recorder))
            stack.enter_context(saving(self._recorder))
            stack.enter_context(lazy_modules())
            stack.enter_context(refusing())
            stack.enter_context(alike())
            stack.enter_context(one_thread())
            stack.enter_context(_dispatching())
            stack.enter_context(self._ranks.present())
            stack.enter_context(self._observer.watching())
            stack.enter_context(self._recorder)
            stack.enter_context(self._gpu)
            yield

    def _present(self) -> AbstractContextManager[None]:
        """Make PyTorch find the fake GPUs, or none."""
        if isinstance(self._gpu, FakeCpu):
            return absent(self._gpu)
        there = self._ranks.job.on_this_node
        return present(self._gpu, self._name or "", there, self._recorder)

    def end(self) -> None:
        """Destroy what the code has left open."""
        self._ranks.end()
        fake_cuda.end()

    @property
    def job(self) -> Job:
        """The ranks of the job, as the code asks for them."""
        return self._ranks.job

    @property
    def ranks(self) -> str:
        """The number of ranks and how they communicate; empty without a group."""
        return self._ranks.words

    @property
    def is_name_asked(self) -> bool:
        """Whether the code asked for the GPU's name, and so may depend on it."""
        return self._gpu.is_name_asked

    def step(self, call: Callable[[], object], *, goes_on: bool = False) -> FakeStep:
        """Run a step twice and record the second run.

        With `goes_on`, an earlier step has created what first steps create, and it runs
        once. Raises `EstimateError` with the user's line for code that cannot run.
        """
        with self.inside(), step_errors(), _uncollected():
            if not goes_on:
                self._once(call)
            gc.collect()
            begin = self._recorder.ledger.now
            events = self._profiled(call)
        ops = {n: op for n, op in self._recorder.ops.items() if n > begin}
        _number_streams(ops.values())
        measured = {
            number: call
            for number, call in self._recorder.measured.items()
            if number > begin
        }
        return FakeStep(
            events,
            ops,
            [
                *self._recorder.ledger.since(begin),
                *workspace.holdings(measured, begin),
            ],
            {number - begin: op.name for number, op in ops.items()},
            torch.backends.cuda.matmul.allow_tf32,
            torch.backends.cudnn.allow_tf32,
            CUDA_BLOCK if self._name else 1,
            (
                *needs_torch.compared(torch.__version__),
                *self._recorder.assumptions.lines,
            ),
            self._ranks.shared.read,
            tuple(self._ranks.shared.lines),
        )

    def _once(self, call: Callable[[], object]) -> None:
        self._recorder.now.phase = "forward"
        try:
            call()
            self._observer.mark_gradients()
        finally:
            self._recorder.now.phase = "setup"

    def _profiled(self, call: Callable[[], object]) -> list[dict[str, Any]]:
        with TemporaryDirectory(prefix="tracedb-") as folder:
            file = Path(folder, "trace.json")
            with Recording(activities=[ProfilerActivity.CPU]) as profiler:
                self._once(call)
            profiler.export_chrome_trace(str(file))
            events = json.loads(file.read_text())["traceEvents"]
        return [event for event in events if event.get("ph") == "X"]


def _number_streams(ops: Iterable[Dispatched]) -> None:
    """Number side streams in the order of their use, as in any other run."""
    numbers = {DEFAULT_STREAM: DEFAULT_STREAM}
    for op in ops:
        op.stream = numbers.setdefault(op.stream, len(numbers))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Disable garbage collection, so that memory is freed alike in every run."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _dispatching() -> Iterator[None]:
    """Let inference mode disable gradients only.

    PyTorch's own dispatches ops that consist of others as one, unlike to a real device.
    """

    def enter(mode: Any) -> None:  # noqa: ANN401 (it keeps what was before)
        mode.before = torch.is_grad_enabled()
        torch.set_grad_enabled(mode.before and not mode.mode)

    def leave(mode: Any, *_: object) -> None:  # noqa: ANN401
        torch.set_grad_enabled(mode.before)

    with changed(torch.inference_mode, {"__enter__": enter, "__exit__": leave}):
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Let PyTorch log no traceback for what an error says in one line."""
    log = logging.getLogger("torch._subclasses.fake_tensor")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


@contextmanager
def step_errors() -> Iterator[None]:
    """Raise errors of the user's code as `EstimateError` with file and line."""
    try:
        yield
    except (TracedbError, KeyboardInterrupt, BrokenPipeError):
        # Of these, the last is stdout, which is closed (`tracedb estimate ... | head`).
        raise
    except SystemExit as error:
        where = place.of_error(error) or "the step"
        raise EstimateError(
            f"{where}: the code ends itself: exit({error.code!r})"
        ) from error
    except BaseException as error:
        found = first(error)
        if isinstance(found, TracedbError):
            raise found from error
        where = place.of_error(found) or place.of_error(error) or "the step"
        if is_about(found):
            refuse("a size", where)
        raise EstimateError(f"{where}: {reason(found)}") from error


class _Observer:
    """Tracks modules, parameters and optimizers; restores the state of real ones."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._open: list[Any] = []
        self._names: dict[int, str] = {}
        self._numbers: dict[int, str] = {}
        self._counts: dict[str, int] = {}
        self._modules: dict[int, torch.nn.Module] = {}
        self._optimizers: dict[int, Optimizer] = {}
        self._gradients: list[tuple[torch.Tensor, torch.Tensor | None]] = []
        self._states: list[tuple[Optimizer, dict[Any, Any]]] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hook into all modules and optimizers within the block."""
        handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
            optimizer.register_optimizer_step_pre_hook(self._before),
            optimizer.register_optimizer_step_post_hook(self._after),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._restore()

    def _enter(self, module: torch.nn.Module, _args: object) -> None:
        if not self._open and id(module) not in self._modules:
            self._know(module)
        now = self._recorder.now
        now.modules.append(self._names.get(id(module), type(module).__name__))
        opened = record_function(f"{MODULE}{self._number(module)}")
        opened.__enter__()  # type: ignore[no-untyped-call]
        self._open.append(opened)

    def _leave(self, _module: torch.nn.Module, _args: object, _result: object) -> None:
        if self._open:
            self._recorder.now.modules.pop()
            self._open.pop().__exit__(None, None, None)

    def _number(self, module: torch.nn.Module) -> str:
        """The class name with the module's number within that class."""
        kind = type(module).__name__
        if id(module) not in self._numbers:
            number = self._counts.get(kind, 0)
            self._counts[kind] = number + 1
            self._numbers[id(module)] = f"{kind}_{number}"
        return self._numbers[id(module)]

    def _know(self, root: torch.nn.Module) -> None:
        """Register the names, parameters and buffers of a model."""
        if not any(is_lazy(p) or p.is_meta for p in root.parameters()):
            self._modules[id(root)] = root
        for name, module in root.named_modules():
            path = f"{type(root).__name__}.{name}" if name else type(root).__name__
            self._names[id(module)] = path
        for name, parameter in root.named_parameters():
            if is_lazy(parameter):
                continue
            self._hold(parameter, "parameter", name)
            if not isinstance(parameter, FakeTensor):
                self._gradients.append((parameter, parameter.grad))
        for name, buffer in root.named_buffers():
            if not is_lazy(buffer):
                self._hold(buffer, "buffer", name)

    def _hold(self, tensor: torch.Tensor, kind: str, name: str = "") -> None:
        for part in dense_parts(tensor):
            holding = self._recorder.holding(part)
            holding.kind, holding.name = kind, name or holding.name

    def _before(self, chosen: Optimizer, _args: object, _kwargs: object) -> None:
        if id(chosen) not in self._optimizers:
            self._optimizers[id(chosen)] = chosen
            if not all(isinstance(p, FakeTensor) for p in _optimized(chosen)):
                state = {p: dict(kept) for p, kept in chosen.state.items()}
                self._states.append((chosen, state))
        if isinstance(chosen, torch.optim.LBFGS):
            self._recorder.assumptions.tell(
                f"{place.of_caller()}: LBFGS is assumed to run all its iterations, "
                "each with one evaluation"
            )
        refuse_stale(_optimized(chosen))
        self._keep_counters(chosen)
        self.mark_gradients()
        self._recorder.now.phase = "optimizer"

    def _keep_counters(self, chosen: Optimizer) -> None:
        """Keep step counts on the host unless `capturable` or `fused` is set."""
        for group in chosen.param_groups:
            if group.get("capturable") or group.get("fused"):
                continue
            for parameter in group["params"]:
                for tensor in tensors_of(chosen.state.get(parameter, {})):
                    if not tensor.shape:
                        self._recorder.holding(tensor).is_on_gpu = False

    def _after(self, chosen: Optimizer, _args: object, _kwargs: object) -> None:
        for state in chosen.state.values():
            for tensor in tensors_of(state):
                self._hold(tensor, "optimizer")
        self._recorder.now.phase = "forward"

    def mark_gradients(self) -> None:
        """Mark the existing gradients as such."""
        for parameter in self._parameters():
            known = self._recorder.holding(parameter)
            known.kind = known.kind or "parameter"
            if parameter.grad is not None:
                name = f"gradient of {known.name}" if known.name else ""
                self._hold(parameter.grad, "gradient", name)

    def _parameters(self) -> Iterator[torch.Tensor]:
        for root in self._modules.values():
            yield from root.parameters()
        for chosen in self._optimizers.values():
            yield from _optimized(chosen)

    def _restore(self) -> None:
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        for chosen, state in self._states:
            chosen.state.clear()
            chosen.state.update(state)
        self._gradients.clear()
        self._states.clear()
        self._optimizers.clear()


def _optimized(chosen: Optimizer) -> Iterator[torch.Tensor]:
    """The parameters of an optimizer."""
    for group in chosen.param_groups:
        yield from group["params"]
