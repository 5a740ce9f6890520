"""Run the step of every rank of a job, each in its own process.

Ranks that do different work, such as the stages of a pipeline, exchange objects before
their first step. PyTorch's process groups belong to a process, so each rank has one.
"""

from __future__ import annotations

import multiprocessing
import os
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracedb.errors import EstimateError, TracedbError
from tracedb.from_code.job_recording import JobRecording
from tracedb.from_code.mailbox import Mailbox
from tracedb.from_code.program import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection

    from tracedb.from_code.fake_run import FakeStep
    from tracedb.from_code.job import Job
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.program import Node


_Given = tuple[
    "Callable[..., object] | str | Path", tuple[object, ...], str, "int | None"
]
"""A step, its inputs, the GPU and the batch size."""


MOST_RANKS = 32
"""How many ranks run: each takes a process and a few hundred MB."""


@dataclass(frozen=True)
class RankRecording:
    """The recorded step of one rank."""

    rank: int
    batch: int | None
    takes_batch: bool
    fake: FakeStep

    source: str = ""

    @property
    def memory(self) -> Memory:
        """Its peak memory."""
        return self.fake.memory

    @cached_property
    def root(self) -> Node:
        """Its ops as a tree."""
        return tree(self.fake.events, self.fake.ops)

    @property
    def unsure(self) -> tuple[str, ...]:
        """Assumptions about values, one line each."""
        return self.fake.assumed

    @property
    def tf32_products(self) -> bool:
        """Whether matrix products may use TF32 (PyTorch's switch)."""
        return self.fake.tf32_products

    @property
    def tf32_convolutions(self) -> bool:
        """Whether convolutions may use TF32."""
        return self.fake.tf32_convolutions


@dataclass(frozen=True)
class JobSource:
    """Makes recordings of a step by all ranks."""

    step: Callable[..., object] | str | Path
    inputs: tuple[object, ...]
    gpu: str
    job: Job

    def at(self, batch: int | None) -> JobRecording:
        """Record it at a batch size, or its default one."""
        return record_job(self.step, self.inputs, self.gpu, self.job, batch)


def record_job(
    step: Callable[..., object] | str | Path,
    inputs: tuple[object, ...],
    gpu: str,
    job: Job,
    batch: int | None,
) -> JobRecording:
    """Record the step of each rank. Raises `EstimateError` where one cannot run."""
    count = job.ranks or 1
    if count > MOST_RANKS:
        raise EstimateError(
            f"{count:,} ranks that do different work; at most {MOST_RANKS} of them run"
        )
    with _processes(_context(step), (step, inputs, gpu, batch), job) as results:
        found = _collected(results)
    return JobRecording(
        [found[rank] for rank in range(count)],
        count,
        f"{count} ranks that do different work; each has been run",
    )


def _context(step: Callable[..., object] | str | Path) -> Any:  # noqa: ANN401 (it has no public name)
    """How to start a process: a copy of this one, or with a GPU in use a new one.

    PyTorch's autograd does not run in copies of a process that has threads for GPUs.
    """
    import torch

    can_fork = "fork" in multiprocessing.get_all_start_methods()
    is_file = isinstance(step, (str, Path))
    if not can_fork and not is_file:
        raise EstimateError(
            "ranks that do different work run in processes of their own: name the step "
            "in a script (train.py:step)"
        )
    is_copied = can_fork and not (is_file and torch.cuda.is_available())
    return multiprocessing.get_context("fork" if is_copied else "spawn")


def _recorded(
    step: Callable[..., object] | str | Path,
    inputs: tuple[object, ...],
    gpu: str,
    job: Job,
    batch: int | None,
) -> RankRecording | str:
    """The recording of one rank, or else the line that says why there is none."""
    from tracedb.from_code.recordings import Source

    source = Source(step, inputs, gpu, job)
    try:
        found = source.at(batch)
        return RankRecording(job.rank, found.batch, found.step.takes_batch, found.fake)
    except TracedbError as error:
        return str(error)
    finally:
        source.close()


@contextmanager
def _processes(
    context: Any,  # noqa: ANN401 (it has no public name)
    given: _Given,
    job: Job,
) -> Iterator[dict[Connection, int]]:
    """Run each rank in a process; yield where their results arrive."""
    results: dict[Connection, int] = {}
    started = []
    inboxes = [context.Queue() for _ in range(job.ranks or 1)]
    try:
        with warnings.catch_warnings():
            # The processes run neither threads nor the database of this one.
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            for rank in range(len(inboxes)):
                arriving, leaving = context.Pipe(duplex=False)
                own = replace(job, rank=rank, mailbox=Mailbox(rank, inboxes))
                process = context.Process(target=_run, args=(given, own, leaving))
                process.start()
                leaving.close()
                started.append(process)
                results[arriving] = rank
        yield results
    finally:
        for process in started:
            process.terminate()
            process.join()
        for arriving in results:
            arriving.close()


def _run(given: _Given, job: Job, result: Connection) -> None:
    """Run a rank, and end its process without what this one does at its end."""
    step, inputs, gpu, batch = given
    result.send(_recorded(step, inputs, gpu, job, batch))
    if job.mailbox is not None:
        job.mailbox.leave()
    result.close()
    os._exit(0)


def _collected(results: dict[Connection, int]) -> dict[int, RankRecording]:
    """The recordings of all ranks; the first error of one is raised."""
    found: dict[int, RankRecording] = {}
    waiting = dict(results)
    while waiting:
        there = wait([*waiting])
        for arriving in [one for one in waiting if one in there]:
            rank = waiting.pop(arriving)
            try:
                recorded = arriving.recv()
            except EOFError:
                raise EstimateError(f"the process of rank {rank} ended early") from None
            if isinstance(recorded, str):
                raise EstimateError(recorded)
            found[rank] = recorded
    return found
