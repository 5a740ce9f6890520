"""Record some steps of a user's loop.

The loop marks the end of a step by `Loop.step`. Otherwise a step ends with the step of
the first optimizer that is seen, with each call of the first module, or with the loop
(`Plan.step_at`). Each rank writes its own files.
"""

import os
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import torch
import torch.distributed as dist
from torch.nn import Module
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ExecutionTraceObserver, profile, schedule

from .recording import make_profiler, state_rank


@dataclass(frozen=True)
class Rank:
    """The rank of this process, and the number of ranks."""

    number: int = 0
    count: int = 1

    @classmethod
    def current(cls) -> "Rank":
        """The rank by torch.distributed, or by its environment variables."""
        if dist.is_available() and dist.is_initialized():
            return cls(dist.get_rank(), dist.get_world_size())
        with suppress(KeyError, ValueError):
            return cls(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        return cls()


StepAt: TypeAlias = Literal["optimizer", "forward", "exit"]
"""What ends a step: an optimizer, a call of the model, or the end of the loop."""


@dataclass(frozen=True)
class Plan:
    """What to record, and after how many steps."""

    warmup: int
    steps: int
    shapes: bool = True
    stacks: bool = False
    memory: bool = False
    graph: bool = False
    step_at: StepAt = "optimizer"

    @property
    def settings(self) -> dict[str, bool]:
        """The arguments of `torch.profiler.profile`."""
        return {
            "record_shapes": self.shapes,
            "with_stack": self.stacks,
            "profile_memory": self.memory,
        }

    def schedule(self) -> Callable[[int], Any]:
        """The profiler's schedule, with one slow warmup step before recording."""
        with warnings.catch_warnings():
            # PyTorch warns of no warmup, which was asked for.
            warnings.simplefilter("ignore", UserWarning)
            return schedule(
                wait=max(self.warmup - 1, 0),
                warmup=min(self.warmup, 1),
                active=self.steps,
                repeat=1,
            )


class Loop:
    """The profiler around a loop.

    After `plan.warmup` steps it records `plan.steps`, writes them as `files` into the
    folder, and is idle from then on.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Take the folder of files, and what to record."""
        self.files: list[Path] = []
        self.rank = Rank.current()
        self.ended_steps = 0
        self.folder, self._plan = folder, plan
        folder.mkdir(parents=True, exist_ok=True)
        self._remove_stale()
        self._graph = folder / f".graph.{os.getpid()}.json"
        self._observer = (
            ExecutionTraceObserver().register_callback(str(self._graph))
            if plan.graph
            else None
        )
        self._profiler = make_profiler(
            plan.schedule(),
            self._write,
            has_gpu=torch.cuda.is_available(),
            execution_trace_observer=self._observer,
            **plan.settings,
        )
        ends: dict[StepAt, type[_Ends]] = {"forward": _Forward, "exit": _Ends}
        self._automatic = ends.get(plan.step_at, _Automatic)(self._end_step)
        self._stop = ExitStack()

    @property
    def recorded_steps(self) -> int:
        """The number of whole steps recorded so far."""
        return min(max(self.ended_steps - self._plan.warmup, 0), self._plan.steps)

    @property
    def found_steps(self) -> int:
        """The number of steps that only showed which optimizer ends steps: 0 or 1."""
        return int(self._automatic.has_found)

    @property
    def is_done(self) -> bool:
        """Whether all steps have been recorded."""
        return self.recorded_steps == self._plan.steps

    def __enter__(self) -> Self:
        """Begin the first step."""
        with ExitStack() as stack:
            stack.callback(self._graph.unlink, missing_ok=True)
            stack.enter_context(self._profiler)
            stack.callback(self._automatic.stop)
            self._automatic.start()
            self._stop = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and write what was recorded unless already done."""
        if self._plan.step_at == "exit":
            self._end_step()
        self._stop.__exit__(kind, error, trace)

    def step(self) -> None:
        """End a step; from now on, optimizers no longer end steps."""
        self._automatic.stop()
        self._automatic.has_found = False
        self._end_step()

    def _end_step(self) -> None:
        if self.is_done:
            return
        self.ended_steps += 1
        self._profiler.step()
        if self._observer is not None and self.recorded_steps:
            self._observer.stop()
        if self.is_done:
            self._automatic.stop()

    def _write(self, profiler: profile) -> None:
        """Write the files of this rank atomically."""
        self.rank = Rank.current()
        if self.rank.count > 1:
            state_rank(profiler, self.rank.number)
        own = self.folder / f".kineto.{os.getpid()}.json"
        profiler.export_chrome_trace(str(own))
        # The trace comes last, so that whoever waits for it finds both.
        if self._observer is not None:
            self._observer.unregister_callback()
            self._keep(self._graph, "et")
        self._keep(own, "kineto")

    def _keep(self, file: Path, kind: str) -> None:
        self.files.append(file.replace(self.file_of(self.rank.number, kind)))

    def _remove_stale(self) -> None:
        """Remove this rank's earlier files: the first rank waits for new ones."""
        for kind in ("kineto", "et"):
            self.file_of(self.rank.number, kind).unlink(missing_ok=True)

    def file_of(self, rank: int, kind: str = "kineto") -> Path:
        """The path of a rank's trace, or of its execution graph (`et`)."""
        name = f"rank{rank}" if self.rank.count > 1 else "recording"
        return self.folder / f"{name}.{kind}.json"


class _Ends:
    """Ends steps without calls of `Loop.step`; this one ends none."""

    def __init__(self, end_step: Callable[[], None]) -> None:
        self._end_step = end_step
        self.has_found = False
        self._restore: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Start to look for what ends steps."""

    def stop(self) -> None:
        """Restore everything."""
        self._restore()
        self._restore = lambda: None


class _Forward(_Ends):
    """Ends a step after each call of the first module that is called.

    Modules that it calls itself come later, so it is the outermost one.
    """

    def start(self) -> None:
        """Start to look for a module."""
        self._restore = register_module_forward_pre_hook(self._found).remove

    def _found(self, module: Module, *_: object) -> None:
        self.stop()
        hook = module.register_forward_hook(self._called, always_call=True)
        self._restore = hook.remove

    def _called(self, *_: object) -> None:
        self._end_step()


class _Automatic(_Ends):
    """Ends a step after each step of the first optimizer that is seen.

    A hook finds the optimizer. The hook runs within the optimizer's profiler range,
    which steps must not cut, so the optimizer's `step` is wrapped from then on.
    """

    def start(self) -> None:
        """Start to look for an optimizer."""
        handle = register_optimizer_step_post_hook(self._found)
        self._restore = handle.remove

    def _found(self, optimizer: Optimizer, *_: object) -> None:
        self.stop()
        self.has_found = True
        own = vars(optimizer)
        before, usual = own.get("step"), optimizer.step

        @wraps(usual)
        def step(*values: Any, **named: Any) -> Any:  # noqa: ANN401 (as optimizers do)
            result = usual(*values, **named)
            self._end_step()
            return result

        def restore() -> None:
            # Keep a wrapper that others have set since.
            if own.get("step") is step:
                own.pop("step")
                own.update({} if before is None else {"step": before})

        own["step"] = step
        self._restore = restore
