"""Measure a CPU: the times of its ops, and the host time of a step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import torch

import tracedb
from tracedb import kernels, microbench
from tracedb.errors import EstimateError
from tracedb.from_code import needs_torch  # noqa: F401 (it raises a clear error)
from tracedb.from_code.cpu.host import Timed, fit, parts
from tracedb.from_code.cpu.measured import MODELS, OPS, MeasuredCpu
from tracedb.from_code.cpu.op_times import op_times
from tracedb.from_code.cpu.programs import PROGRAMS, page_ns, time_ns
from tracedb.from_code.cpu.work import computing, cpu_launches
from tracedb.from_code.fake_run import FakeRun
from tracedb.from_code.program import tree
from tracedb.microbench.host import memory_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tracedb.from_code.cpu.programs import Step
    from tracedb.from_code.program import Node
    from tracedb.kernels.models import Models

EFFORT = microbench.Effort(
    repeats=5, most=15, least_ns=3e6, most_ns=100e6, sample_ns=50e3, warmup=2
)
"""A fifth of the usual effort per case: there are many kinds of CPU ops."""


def measure(
    folder: str | Path,
    *,
    threads: int | None = None,
    minutes: float | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> MeasuredCpu | None:
    """Measure this CPU into a folder, continuing an earlier run.

    Return None if `minutes` ended before everything was measured. Raises
    `EstimateError` if the folder cannot be written, or belongs to another CPU.
    """
    folder = Path(folder)
    plan = microbench.plan("cpu")
    try:
        backend = microbench.open_backend("torch", "cpu", threads)
        done = microbench.measure(
            folder / OPS, plan, backend, minutes=minutes, effort=EFFORT, tell=tell
        )
    except microbench.MicrobenchError as error:
        raise EstimateError(str(error)) from error
    for line in done.lines():
        tell(line)
    if not done.is_whole:
        return None
    tell("timing small programs")
    steps = {name: time_ns(make()) for name, make in PROGRAMS.items()}
    kernels.train([folder / OPS], folder / MODELS)
    models = kernels.load(folder / MODELS)
    place = backend.place()
    found = MeasuredCpu(
        folder,
        replace(fit(timed(PROGRAMS, steps, models)), page_ns=page_ns()),
        {
            "processor": place.device,
            "software": place.software,
            **place.facts,
            "memory_bytes": memory_bytes(),
            "torch": torch.__version__,
            "tracedb": tracedb.__version__,
            "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "programs_ns": {name: round(ns) for name, ns in steps.items()},
        },
    )
    found.save()
    return found


def timed(
    programs: Mapping[str, Callable[[], Step]],
    steps_ns: Mapping[str, float],
    models: Models,
) -> list[Timed]:
    """The timed programs, each with its counts of parts and predicted time in ops."""
    roots = {name: _root(make) for name, make in programs.items()}
    with tracedb.open() as database:
        table = cpu_launches(database.connection)
        nodes = {name: computing(root, table) for name, root in roots.items()}
        every = [node for several in nodes.values() for node in several]
        times = op_times(database.connection, every, models)
    return [
        Timed(
            parts(root),
            sum(times[id(node)].expected for node in nodes[name]),
            steps_ns[name],
        )
        for name, root in roots.items()
    ]


def _root(make: Callable[[], Step]) -> Node:
    run = FakeRun(None)
    with run.inside():
        step = make()
    fake = run.step(step)
    return tree(fake.events, fake.ops)
