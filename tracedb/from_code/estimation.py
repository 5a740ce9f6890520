"""Estimate a training step from its code: memory, launches, times, a trace to ask."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import tracedb
from tracedb.from_code.clock import Clock
from tracedb.from_code.events import trace_text
from tracedb.from_code.fake_run import FakeRun, told
from tracedb.from_code.host_times import HostTimes
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.pricing import Device, price
from tracedb.from_code.program import launch, tree
from tracedb.from_code.script import Step, load, split
from tracedb.from_code.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

    from tracedb.from_code.fake_run import FakeStep
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.pricing import KernelTime
    from tracedb.from_code.program import Node

_STEPS = 2
"""How many steps a trace has: the first one begins with nothing to wait for."""
_HOST_BAND = (0.5, 2.0)
"""Hosts are this much faster or slower than that which host times were learnt on."""
_RESERVE_BYTES = 1_000_000_000
"""[B] Of a GPU's memory: CUDA's context, libraries' workspaces, what is fragmented."""
_GROWN, _STRIDE, _ABSURD = 1.5, 4, 1 << 40
"""Batches are made larger by the stride until memory has grown so much."""
_FEW = 4
"""How often a batch size that should fit is tried, and made smaller."""


@dataclass(frozen=True)
class Estimate:
    """What a step would take on a GPU that it did not run on.

    `unmodelled` counts GPU ops that no family of kernels counts, by the op that
    launches them.
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
    _layout: Layout = field(repr=False)
    _path: str | Path = field(repr=False)

    @cached_property
    def database(self) -> tracedb.Database:
        """The run that would be, to be asked as any other; it is put there once."""
        opened = tracedb.open(self._path)
        self._layout.ingest(opened)
        return opened


def estimate(  # noqa: PLR0913 (the options of one command)
    step: Callable[..., object] | str | Path,
    *inputs: object,
    gpu: str,
    batch: int | None = None,
    database: str | Path | None = None,
    library: str | Path | None = None,
    cuda_graph: bool = False,
    find_largest_batch: bool = False,
) -> Estimate:
    """Estimate a training step from its code, for a GPU that need not be there.

    `step` is a function that is called with the inputs, or a script's, as
    `"train.py:step"`; it runs on fake tensors, which take no memory. `batch` goes to
    its parameter of that name. The run that would be is put into the database, whose
    own traces tell first which kernels ops launch; without one it is put into memory
    when it is asked for. Host times are those that are shipped, or of a library of
    overheads. With `cuda_graph` the step's kernels are launched as CUDA graphs.
    Raises `EstimateError` where it cannot run.
    """
    with tracedb.open() as empty:
        device = Device.of(empty.connection, gpu)
        run = FakeRun(device.name)
        called = _step_of(step, inputs, run).with_batch(batch)
        fake = run.step(called)
        host, table = _known(empty, database, library, fake)
        root = tree(fake.events, fake.ops)
        nodes = launch(root, table)
        times = price(empty.connection, {device: [nodes]})[device][0]
    layout = Layout(root, host, times, device, is_captured=cuda_graph)
    expected, active = layout.times()
    found = Estimate(
        gpu=device.hardware,
        batch=called.usual_batch,
        step_ns=expected,
        low_ns=layout.bound("low", _HOST_BAND[0]),
        high_ns=layout.bound("high", _HOST_BAND[1]),
        gpu_active_ns=active,
        kernel_count=len(times),
        memory=fake.memory,
        capacity_bytes=device.capacity_bytes,
        largest_batch=_largest(called, fake, device) if find_largest_batch else None,
        unmodelled=_unmodelled(nodes, times),
        _layout=layout,
        _path=":memory:" if database is None else database,
    )
    if database is not None:
        _ = found.database
    return found


def _known(
    empty: tracedb.Database,
    database: str | Path | None,
    library: str | Path | None,
    fake: FakeStep,
) -> tuple[HostTimes, LaunchTable]:
    """What is known of hosts and launches: shipped, or of the user's own traces."""
    host = HostTimes.shipped()
    tf32 = {
        "tf32_products": fake.tf32_products,
        "tf32_convolutions": fake.tf32_convolutions,
    }
    if database is None:
        table = LaunchTable.of(empty.connection, **tf32)
    else:
        with tracedb.open(database) as own:
            table = LaunchTable.of(own.connection, **tf32)
            host = host.with_graphs_of(own.connection)
    return host if library is None else host.with_library(library), table


def _step_of(
    step: Callable[..., object] | str | Path, inputs: tuple[object, ...], run: FakeRun
) -> Step:
    if not isinstance(step, (str, Path)):
        return Step(step, inputs)
    path, name = split(str(step))
    with run.inside(), told():
        return load(path, name)


@dataclass(frozen=True)
class Layout:
    """A step with all that it takes to lay it out."""

    root: Node
    host: HostTimes
    work: list[KernelTime]
    device: Device
    is_captured: bool = False

    @cached_property
    def _timeline(self) -> Timeline:
        """So many steps as are expected, one after another."""
        timeline = Timeline(
            self.host, lambda number: self.work[number].expected, self.is_captured
        )
        for number in range(_STEPS):
            timeline.step(self.root, number)
        return timeline

    def times(self) -> tuple[int, int]:
        """[ns] The last step, and how long the GPU is active in it."""
        return self.bound("expected", 1.0), sum(time.expected for time in self.work)

    def bound(self, which: str, factor: float) -> int:
        """[ns] The last step where all kernels, and the host, are at one end."""
        said = self._timeline.clock.said
        each = len(said) // _STEPS
        clock = Clock()

        def duration(number: int) -> int:
            return int(getattr(self.work[number], which))

        ends = [
            clock.again(said[each * step : each * (step + 1)], duration, factor)
            for step in range(_STEPS)
        ]
        return ends[-1] - ends[-2]

    def ingest(self, database: tracedb.Database) -> None:
        """Put the steps into a database."""
        from tracedb.ingest import ingest

        with TemporaryDirectory(prefix="tracedb-") as folder:
            file = Path(folder, f"estimate {self.device.hardware}.json")
            file.write_text(trace_text(self._timeline.events, self.device.name))
            ingest(
                database.connection,
                [file],
                run=None,
                pair=False,
                progress=lambda _line: None,
            )


def _unmodelled(nodes: list[Node], times: list[KernelTime]) -> dict[str, int]:
    """How many GPU ops no family counts, by the op that launches them."""
    names = [n.name for n in nodes if n.launching for _ in n.launching.work]
    found: dict[str, int] = {}
    for name, time in zip(names, times, strict=True):
        if not time.is_modelled:
            found[name] = found.get(name, 0) + 1
    return found


def _largest(called: Step, fake: FakeStep, device: Device) -> int | None:
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
