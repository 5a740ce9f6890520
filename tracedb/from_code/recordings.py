"""Recordings of a step at batch sizes, each by itself."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tracedb.from_code import needs_torch  # noqa: F401 (it tells where it is absent)
from tracedb.from_code.fake_run import FakeRun, step_errors
from tracedb.from_code.program import tree
from tracedb.from_code.script import Step, load, split

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracedb.from_code.fake_run import FakeStep
    from tracedb.from_code.job import Job
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.program import Node


@dataclass(frozen=True)
class Recording:
    """What a step does at a batch size, if it has one."""

    step: Step
    fake: FakeStep
    source: str = ""
    """Of several ranks, how many there are and what they do together."""

    @property
    def batch(self) -> int | None:
        """The batch size that the step has, if it is known."""
        return self.step.usual_batch

    @property
    def memory(self) -> Memory:
        """What it holds at its peak."""
        return self.fake.memory

    @property
    def tf32_products(self) -> bool:
        """Whether products may be of TF32, by PyTorch's own switch."""
        return self.fake.tf32_products

    @property
    def tf32_convolutions(self) -> bool:
        """Whether convolutions may be of TF32."""
        return self.fake.tf32_convolutions

    @property
    def unsure(self) -> tuple[str, ...]:
        """All of it is known."""
        return ()

    @cached_property
    def root(self) -> Node:
        """Its ops as a tree."""
        return tree(self.fake.events, self.fake.ops)

    @cached_property
    def nodes(self) -> list[Node]:
        """All of the tree, in order."""
        return list(self.root.walk())


class Source:
    """Where recordings of a step come from, as for a GPU of some name."""

    def __init__(
        self,
        step: Callable[..., object] | str | Path,
        inputs: tuple[object, ...],
        gpu: str | None,
        job: Job | None = None,
    ) -> None:
        """Take a function with its inputs, or a script's as `train.py:step`.

        Without a GPU's name it is on the CPU. It is a rank of a job.
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
        """Whether what a recording makes is still there for the next one.

        What a function has made of real tensors is taken back after each.
        """
        return self._loaded is not None

    def at(self, batch: int | None, *, goes_on: bool = False) -> Recording:
        """Record it at a batch size, or without one; it runs on fake tensors.

        A script is executed anew, unless it goes on after the recording before.
        Raises `EstimateError` where it cannot run.
        """
        goes_on = goes_on and self.can_go_on
        step = self._loaded if goes_on and self._loaded else self._called()
        called = step.with_batch(batch)
        fake = self._run.step(called, goes_on=goes_on)
        self.is_gpu_asked |= self._run.is_name_asked
        return Recording(called, fake, self._run.ranks)

    def close(self) -> None:
        """Leave nothing behind of what the code has begun."""
        self._run.end()

    def _called(self) -> Step:
        if not isinstance(self._step, (str, Path)):
            return Step(self._step, self._inputs)
        self._run.end()
        self._run = FakeRun(self._gpu, self._job)
        path, name = split(str(self._step))
        with self._run.inside(), step_errors():
            self._loaded = load(path, name)
        return self._loaded
