"""Record a step at several batch sizes."""

from __future__ import annotations

import gc
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tracedb.errors import EstimateError
from tracedb.from_code import needs_torch  # noqa: F401 (it raises a clear error)
from tracedb.from_code.fake_run import FakeRun, step_errors
from tracedb.from_code.program import tree
from tracedb.from_code.script import Step, load, split

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tracedb.from_code.fake_run import FakeStep
    from tracedb.from_code.job import Job
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.program import Node


@dataclass(frozen=True)
class Recording:
    """A recorded step, at a batch size if it has one."""

    step: Step
    fake: FakeStep
    source: str = ""
    """For several ranks, their number and how they communicate."""
    is_of_all: bool = False
    """Whether another rank gives the same known numbers to collectives."""

    @property
    def batch(self) -> int | None:
        """The step's batch size, if known."""
        return self.step.usual_batch

    @property
    def memory(self) -> Memory:
        """Its peak memory."""
        return self.fake.memory

    @property
    def tf32_products(self) -> bool:
        """Whether matrix products may use TF32 (PyTorch's switch)."""
        return self.fake.tf32_products

    @property
    def tf32_convolutions(self) -> bool:
        """Whether convolutions may use TF32."""
        return self.fake.tf32_convolutions

    @property
    def takes_batch(self) -> bool:
        """Whether the step has a batch size parameter."""
        return self.step.takes_batch

    @property
    def has_messages(self) -> bool:
        """Whether it sends to another rank or receives from one."""
        called = [op.called for op in self.fake.ops.values()]
        return any(one is not None and one.is_between_two for one in called)

    def refuse_empty(self) -> None:
        """Raise `EstimateError` for a step without ops."""
        if not self.fake.ops:
            raise EstimateError(
                f"{self.step.name}() runs no ops of PyTorch, so nothing is estimated"
            )

    @property
    def unsure(self) -> tuple[str, ...]:
        """Assumptions: other ranks of sends and receives, and those of the step."""
        calls = {
            (op.line, op.called.kind): None
            for op in self.fake.ops.values()
            if op.called is not None and op.called.is_between_two
        }
        waiting = (
            f"{line}: {kind}: the other rank is assumed to call at the same time, so "
            "idle time in a pipeline is missing"
            for line, kind in calls
        )
        shared = () if self.is_of_all else self.fake.shared_lines
        return (*waiting, *shared, *self.fake.assumed)

    @cached_property
    def root(self) -> Node:
        """Its ops as a tree."""
        return tree(self.fake.events, self.fake.ops)

    @cached_property
    def nodes(self) -> list[Node]:
        """All nodes of the tree, in order."""
        return list(self.root.walk())


class Source:
    """Makes recordings of a step for one GPU or a CPU."""

    def __init__(
        self,
        step: Callable[..., object] | str | Path,
        inputs: tuple[object, ...],
        gpu: str | None,
        job: Job | None = None,
    ) -> None:
        """Take a function and its inputs, or a script's function as `train.py:step`.

        The inputs of a script are the arguments of its command line.

        Without `gpu`, it runs on the CPU. `job` gives the ranks, of which it is one.
        """
        self._step = step
        self._inputs = inputs
        self._gpu = gpu
        self._job = job
        self._run = FakeRun(gpu, job)
        self._loaded: Step | None = None
        self.is_gpu_asked = False

    @property
    def can_go_on(self) -> bool:
        """Whether a recording can continue with the state of the one before.

        A script's state is kept; the state of a function's real tensors is restored.
        """
        return self._loaded is not None

    def at(self, batch: int | None, *, goes_on: bool = False) -> Recording:
        """Record it on fake tensors, at a batch size or its default one.

        A script is executed anew, unless `goes_on` continues after the last recording.
        Raises `EstimateError` where it cannot run.
        """
        goes_on = goes_on and self.can_go_on
        with nullcontext() if goes_on else _new_garbage_only():
            step = self._loaded if goes_on and self._loaded else self._called()
            called = step.with_batch(batch)
            fake = self._run.step(called, goes_on=goes_on)
        self.is_gpu_asked |= self._run.is_name_asked
        return Recording(called, fake, self._run.ranks)

    @property
    def job(self) -> Job:
        """The ranks, as the code asks for them."""
        return self._run.job

    def of_last_rank(self) -> Source:
        """The same step as another rank runs it."""
        last = replace(self.job, rank=(self.job.ranks or 1) - 1)
        return Source(self._step, self._inputs, self._gpu, last)

    def close(self) -> None:
        """Destroy what the code has left open."""
        self._run.end()

    def _called(self) -> Step:
        if not isinstance(self._step, (str, Path)):
            return Step(self._step, self._inputs)
        self._run.end()
        self._run = FakeRun(self._gpu, self._job)
        path, name = split(str(self._step))
        with self._run.inside(), step_errors():
            self._loaded = load(path, name, [str(one) for one in self._inputs])
        return self._loaded


@contextmanager
def _new_garbage_only() -> Iterator[None]:
    """Exclude all objects that exist from garbage collection within the block.

    To look at those of PyTorch's modules takes longer than many a step.
    """
    is_ours = not gc.get_freeze_count()
    if is_ours:
        gc.freeze()
    try:
        yield
    finally:
        if is_ours:
            gc.unfreeze()
