"""Estimate a training step from its code: memory, launches, times, a trace to ask."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import tracedb
from tracedb import catalog
from tracedb.duck import scalar
from tracedb.errors import EstimateError
from tracedb.from_code.fake_run import FakeRun, told
from tracedb.from_code.host_times import HostTimes
from tracedb.from_code.launches import LaunchTable, Work
from tracedb.from_code.program import tree
from tracedb.from_code.script import Step, load, split
from tracedb.from_code.timeline import Timeline, trace_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracedb.from_code.fake_run import FakeStep
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.program import Node

_STEPS = 2
"""How many steps a trace has: the first one begins with nothing to wait for."""
_HOST_BAND = (0.5, 2.0)
"""Hosts are this much faster or slower than that which host times were learnt on."""
_RESERVE_BYTES = 1_000_000_000
"""[B] Of a GPU's memory: CUDA's context, libraries' workspaces, what is fragmented."""
_FLOORS = 1.5
"""What a kernel that no family counts takes, in floors: `kernel_efficiency`."""
_GROWN, _STRIDE, _ABSURD = 1.5, 4, 1 << 40
"""Batches are made larger by the stride until memory has grown so much."""
_FEW = 4
"""How often a batch size that should fit is tried, and made smaller."""


@dataclass(frozen=True)
class KernelTime:
    """[ns] What a kernel is predicted to take, and between which times."""

    expected: int
    low: int
    high: int


@dataclass(frozen=True)
class Estimate:
    """What a step would take on a GPU that it did not run on.

    `database` has the run, to be asked as any other; `unmodelled` counts GPU ops that
    no family of kernels counts, by the op that launches them.
    """

    gpu: str
    batch: int | None
    step_ns: int
    low_ns: int
    high_ns: int
    gpu_active_ns: int
    kernel_count: int
    memory: Memory
    capacity_bytes: int | None
    largest_batch: int | None
    unmodelled: dict[str, int]
    database: tracedb.Database


def estimate(  # noqa: PLR0913 (the options of one command)
    step: Callable[..., object] | str | Path,
    *inputs: object,
    gpu: str,
    batch: int | None = None,
    database: str | Path = ":memory:",
    library: str | Path | None = None,
    find_largest_batch: bool = False,
) -> Estimate:
    """Estimate a training step from its code, for a GPU that need not be there.

    `step` is a function that is called with the inputs, or a script's, as
    `"train.py:step"`; it runs on fake tensors, which take no memory. `batch` goes to
    its parameter of that name. The run that would be is put into the database, whose
    own traces tell first which kernels ops launch; host times are those that are
    shipped, or of a library of overheads. Raises `EstimateError` where it cannot run.
    """
    device = _device(gpu)
    run = FakeRun(device.name)
    called = _step_of(step, inputs, run).with_batch(batch)
    fake = run.step(called)
    host = HostTimes.shipped()
    if library is not None:
        host = host.with_library(library)
    opened = tracedb.open(database)
    table = LaunchTable.of(
        opened.connection,
        tf32_products=fake.tf32_products,
        tf32_convolutions=fake.tf32_convolutions,
    )
    root = tree(fake.events, fake.ops)
    times = _kernel_times(root, host, table, device)
    layout = _Layout(root, host, table, times, device)
    _ingest(opened, layout.trace(), device)
    return _result(opened, layout, fake, called, find_largest_batch=find_largest_batch)


@dataclass(frozen=True)
class _Device:
    """A GPU as it is known: its name in traces, its row, memory, shortest kernel."""

    name: str
    hardware: str
    floor_ns: int
    capacity_bytes: int | None


_DEVICE = """
SELECT hardware, floor_ns, memory_bytes
FROM prediction.hardware
LEFT JOIN prediction.memory_capacity USING (hardware)
WHERE kind = 'gpu' AND NOT is_generic AND regexp_matches($gpu, name_pattern, 'i')
ORDER BY ordinal
LIMIT 1
"""
_KNOWN = """
SELECT string_agg(hardware, ', ' ORDER BY ordinal)
FROM prediction.hardware
WHERE kind = 'gpu' AND NOT is_generic
"""
_TIMES = """
SELECT correlation, predicted_ns, low_ns, high_ns
FROM prediction.kernel_time
INNER JOIN staging.gpu_op USING (gpu_op_id)
"""
_ANSWER = """
SELECT period.end_ns - period.start_ns, active.measured_ns
FROM critical_path.step_period AS period
INNER JOIN staging.step USING (step_id)
LEFT JOIN question.gpu_active AS active
    ON period.step_id = active.step_id AND active.method = 'replay'
WHERE variant_id = 0 AND period.trace_id = ?
ORDER BY step.step DESC
LIMIT 1
"""


def _device(gpu: str) -> _Device:
    """The GPU that a name means; raises `EstimateError` for one that is not listed."""
    with tracedb.open() as empty:
        found = empty.connection.execute(_DEVICE, {"gpu": gpu}).fetchall()
        known = scalar(empty.connection, _KNOWN)
    if not found:
        raise EstimateError(f"no GPU {gpu} is known; there are {known}")
    hardware, floor_ns, capacity = found[0]
    return _Device(gpu, hardware, floor_ns, capacity)


def _step_of(
    step: Callable[..., object] | str | Path, inputs: tuple[object, ...], run: FakeRun
) -> Step:
    if not isinstance(step, (str, Path)):
        return Step(step, inputs)
    path, name = split(str(step))
    with run.inside(), told():
        return load(path, name)


def _kernel_times(
    root: Node, host: HostTimes, table: LaunchTable, device: _Device
) -> dict[int, KernelTime]:
    """What each kernel takes, by its number in a step, as any trace's is predicted."""
    timeline = Timeline(host, table, lambda _number, _work: 1_000)
    timeline.step(root, 0)
    with tracedb.open() as first:
        _ingest(first, trace_text(timeline.events, device.name), device, "staging")
        needed = catalog.sources("prediction.kernel_time")
        rows = first.connection.execute("SELECT trace_id FROM raw.trace").fetchall()
        stored = {name for name in needed if name.startswith("prediction.")}
        # Nothing is to be learnt from kernels whose times are not known yet.
        stored.discard("prediction.kernel_factor")
        for _ in catalog.compute(first.connection, [n for (n,) in rows], stored):
            pass
        found = first.connection.execute(_TIMES).fetchall()
    return {number: KernelTime(*times) for number, *times in found}


@dataclass(frozen=True)
class _Layout:
    """A step with all that it takes to lay it out."""

    root: Node
    host: HostTimes
    table: LaunchTable
    times: dict[int, KernelTime]
    device: _Device

    def trace(self) -> str:
        """The trace of so many steps as are expected."""
        return trace_text(self.laid_out("expected", self.host).events, self.device.name)

    def laid_out(self, which: str, host: HostTimes) -> Timeline:
        """Steps with kernels as expected, or as short or long as they may be."""
        count = 0

        def duration(number: int, work: Work) -> int:
            del work
            known = self.times.get(number if count == 0 else number - per_step * count)
            if known is None:
                return int(_FLOORS * self.device.floor_ns)
            return int(getattr(known, which))

        timeline = Timeline(host, self.table, duration)
        timeline.step(self.root, 0)
        per_step = timeline.correlation
        for count in range(1, _STEPS):
            timeline.step(self.root, count)
        return timeline

    def bound(self, which: str, factor: float) -> int:
        """[ns] The last step where all kernels, and the host, are at one end."""
        timeline = self.laid_out(which, replace(self.host, factor=factor))
        marks = [e for e in timeline.events if e["name"].startswith("ProfilerStep#")]
        work = [e["ts"] + e["dur"] for e in timeline.events if e["pid"] == 0]
        per_step = len(work) // _STEPS
        ends = [
            max(mark["ts"] + mark["dur"], *work[: per_step * (place + 1)][-1:])
            for place, mark in enumerate(marks)
        ]
        return round(1e3 * float(ends[-1] - ends[-2]))


def _ingest(
    database: tracedb.Database, text: str, device: _Device, until: str | None = None
) -> None:
    from tracedb.ingest import ingest

    with TemporaryDirectory(prefix="tracedb-") as folder:
        file = Path(folder, f"estimate {device.hardware}.json")
        file.write_text(text)
        ingest(
            database.connection,
            [file],
            run=None,
            pair=False,
            progress=lambda _line: None,
            until=until,
        )


def _result(
    database: tracedb.Database,
    layout: _Layout,
    fake: FakeStep,
    called: Step,
    *,
    find_largest_batch: bool,
) -> Estimate:
    device = layout.device
    trace = scalar(database.connection, "SELECT max(trace_id) FROM raw.trace")
    answer = database.connection.execute(_ANSWER, [trace]).fetchall()[0]
    works = [
        (op.name, work)
        for node in layout.root.walk()
        if (op := node.dispatched) is not None
        for work in layout.table.launching(op).work
    ]
    return Estimate(
        gpu=device.hardware,
        batch=called.usual_batch,
        step_ns=answer[0],
        low_ns=layout.bound("low", _HOST_BAND[0]),
        high_ns=layout.bound("high", _HOST_BAND[1]),
        gpu_active_ns=answer[1] or 0,
        kernel_count=len(works),
        memory=fake.memory,
        capacity_bytes=device.capacity_bytes,
        largest_batch=_largest(called, fake, device) if find_largest_batch else None,
        unmodelled=_unmodelled(works, layout.times),
        database=database,
    )


def _unmodelled(
    works: list[tuple[str, Work]], times: dict[int, KernelTime]
) -> dict[str, int]:
    """How many GPU ops no family counts, by the op that launches them."""
    found: dict[str, int] = {}
    number = 0
    for name, work in works:
        number += 1
        if number not in times:
            found[name] = found.get(name, 0) + 1
        number += work.is_waited_for
    return found


def _largest(called: Step, fake: FakeStep, device: _Device) -> int | None:
    """The largest batch that fits: memory is nearly affine in it; it is then tried."""
    batch, room = called.usual_batch, device.capacity_bytes
    if batch is None or room is None or not called.takes_batch:
        return None
    room -= _RESERVE_BYTES

    def needed(size: int) -> int:
        return FakeRun(device.name).step(called.with_batch(size)).memory.peak_bytes

    known = [(batch, fake.memory.peak_bytes)]
    # What does not depend on the batch may be the most at first.
    while known[-1][1] < _GROWN * known[0][1] and known[-1][0] < _ABSURD:
        size = _STRIDE * known[-1][0]
        known.append((size, needed(size)))
    for _ in range(_FEW):
        (small, less), (large, more) = known[-2:]
        if more <= less or large == small:
            break
        size = int(small + (room - less) * (large - small) / (more - less))
        if size < 1:
            return 0
        if any(size == one for one, _ in known):
            break
        known.append((size, needed(size)))
    fitting = [size for size, peak in known if peak <= room]
    return max(fitting, default=0)
