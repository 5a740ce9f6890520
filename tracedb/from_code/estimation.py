"""Estimate a training step from its code: memory, launches, times and a trace."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypedDict

import tracedb
from tracedb import markup
from tracedb.errors import EstimateError
from tracedb.from_code.error_sources import largest_sources
from tracedb.from_code.fitting import largest, room
from tracedb.from_code.graph_files import graph_files
from tracedb.from_code.host_times import HostTimes
from tracedb.from_code.job import Job
from tracedb.from_code.job_layout import JobLayout, checked_starts
from tracedb.from_code.job_recording import JobRecording
from tracedb.from_code.job_run import MOST_RANKS, JobSource
from tracedb.from_code.launches import LaunchTable
from tracedb.from_code.layout import Layout
from tracedb.from_code.links import Links, connected, refuse_alone
from tracedb.from_code.mailbox import NeedsRanksError
from tracedb.from_code.pricing import price
from tracedb.from_code.program import launch
from tracedb.from_code.subject import is_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Unpack

    from tracedb.from_code.clock import Course
    from tracedb.from_code.cpu.estimation import CpuStep
    from tracedb.from_code.error_sources import ErrorSource
    from tracedb.from_code.job_layout import RankTimes
    from tracedb.from_code.memory import Memory
    from tracedb.from_code.pricing import KernelTime
    from tracedb.from_code.program import Node
    from tracedb.from_code.recordings import Recording, Source
    from tracedb.from_code.subject import Subject

_NO_GRAPHS = "ranks that are simulated together are not estimated with CUDA graphs"
_HOST_BAND = (0.5, 2.0)
"""Factors on host times for a fast and a slow host."""
_FEW = 4
"""How many batch sizes the search for the largest one tries."""


@dataclass(frozen=True)
class Estimate:
    """What a step would take on a GPU or a CPU that it did not run on.

    `gpu` is its name, and None if the step is on `cpu` alone. `unmodelled` counts GPU
    ops that no family of kernels counts, by the op that launches them; on a CPU, the
    ops whose kind was not measured. `computing_ns` is the time in ops of the CPU, and
    `new_pages_ns` that for memory which the C library takes from the system anew.
    `source` says which step of an execution graph it is. `unsure` lists what is assumed
    of values, or what the graph does not record, a line each. `links` is set for ranks
    on several nodes. `error_sources` are the three parts that contribute most to the
    band. `stages` has the ranks of a job that do different work, such as the stages of
    a pipeline; then `memory` is that of the rank with the highest peak, `gpu_active_ns`
    is how long the busiest one computes, and `kernel_count` is that of all.
    """

    gpu: str | None
    cpu: str | None
    batch: int | None
    step_ns: int
    low_ns: int
    high_ns: int
    gpu_active_ns: int
    kernel_count: int
    computing_ns: int
    computing_count: int
    memory: Memory
    capacity_bytes: int | None
    largest_batch: int | None
    unmodelled: dict[str, int]
    source: str
    unsure: tuple[str, ...]
    links: Links | None
    error_sources: tuple[ErrorSource, ...]
    stages: tuple[RankTimes, ...] = field(default=(), kw_only=True)
    new_pages_ns: int = field(default=0, kw_only=True)
    _layout: Layout | JobLayout | CpuStep = field(repr=False)
    _path: str | Path = field(repr=False)

    @cached_property
    def database(self) -> tracedb.Database:
        """The estimated run as a database to query; it is written once."""
        opened = tracedb.open(self._path)
        _ingest(opened, self._layout.texts, self.device)
        return opened

    @property
    def device(self) -> str:
        """The name of the GPU, or else of the CPU."""
        return self.gpu or self.cpu or ""

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        size = "" if self.batch is None else f", batch {self.batch:,}"
        figures = {
            "step_ns": self.step_ns,
            "low_ns": self.low_ns,
            "high_ns": self.high_ns,
            "gpu_active_ns": self.gpu_active_ns,
            "kernels": self.kernel_count,
            "peak memory": f"{self.memory.peak_bytes / 1e9:.3g} GB",
            "largest_batch": self.largest_batch,
        }
        return markup.table(f"A step on {self.device}{size}, as estimated", [figures])


def estimate(  # noqa: PLR0913 (the options of one command)
    step: Callable[..., object] | str | Path,
    *inputs: object,
    gpu: str | None = None,
    cpu: str | Path | None = None,
    batch: int | None = None,
    database: str | Path | None = None,
    library: str | Path | None = None,
    cuda_graph: bool = False,
    find_largest_batch: bool = False,
    ranks: int | None = None,
    ranks_per_node: int | None = None,
    network: float | None = None,
    profiled: bool = False,
    starts_ns: Sequence[int] = (),
    recorded_batch: int | None = None,
) -> Estimate:
    """Estimate a training step on a GPU that you need not have, or on a CPU.

    `step` is a function that is called with the inputs, or a function in a script, such
    as `"train.py:step"`, whose inputs are the arguments of its command line. It runs on
    fake tensors, which take no memory. `batch` is
    passed to its parameter of that name. `ranks` is the number of ranks, which
    communicate as the code does, or otherwise average gradients as
    `DistributedDataParallel` does.

    `step` may also be the file of an execution graph that was recorded on any device.
    Which of its sizes follow the batch size is then inferred from its ops;
    `recorded_batch` is that of the recording, where its inputs do not show it. And
    `ranks` is then the number of ranks in collectives for which the graph has none. A
    node has `ranks_per_node` of them, each of which sends `network` GB/s to other
    nodes. Several files (the inputs), a folder or a pattern are the graphs of ranks of
    one job, which are simulated together, from one end of a step to the next, or for
    one step that each rank starts at its time of `starts_ns`, in the order of the
    ranks.

    The estimated run is written to `database`, whose own traces show which kernels ops
    launch; without a database, it is created in memory on demand. Host times are those
    that ship with tracedb, or come from a `library` of overheads. With `cuda_graph`,
    the kernels of the step are launched as CUDA graphs. With `profiled`, the host is as
    slow as under PyTorch's profiler, for comparison with a trace.

    `cpu` is a folder into which a CPU was measured (`tracedb kernels cpu`), on which
    the step then runs instead.

    Raises `EstimateError` if the step cannot run, or the graph cannot be read.
    """
    if (gpu is None) == (cpu is None):
        raise EstimateError("name a GPU, or the folder of a CPU that was measured")
    of_gpus = _OfGpus(
        library=library,
        cuda_graph=cuda_graph,
        ranks=ranks,
        ranks_per_node=ranks_per_node,
        network=network,
        profiled=profiled,
        starts_ns=starts_ns,
        recorded_batch=recorded_batch,
    )
    if cpu is not None:
        _refuse_of_gpus(step, of_gpus)
        found = _on_cpu(
            step, inputs, cpu, batch, database, find_largest_batch=find_largest_batch
        )
    else:
        found = _on_gpu(
            *(step, inputs, str(gpu), batch, database),
            find_largest_batch=find_largest_batch,
            **of_gpus,
        )
    if database is not None:
        _ = found.database
    return found


class _OfGpus(TypedDict):
    """Options that only a step on a GPU has."""

    library: str | Path | None
    cuda_graph: bool
    ranks: int | None
    ranks_per_node: int | None
    network: float | None
    profiled: bool
    starts_ns: Sequence[int]
    recorded_batch: int | None


def _refuse_of_gpus(step: object, options: _OfGpus) -> None:
    """Raise `EstimateError` for options, and steps, that only GPUs have."""
    for name, value in options.items():
        if value:
            raise EstimateError(f"{name} is of GPUs, and the step is on a CPU")
    if is_graph(step):
        raise EstimateError(
            f"{step}: an execution graph; on a CPU code is estimated alone: "
            "train.py:step"
        )


def _on_cpu(  # noqa: PLR0913 (what `estimate` was given)
    step: Callable[..., object] | str | Path,
    inputs: tuple[object, ...],
    folder: str | Path,
    batch: int | None,
    database: str | Path | None,
    *,
    find_largest_batch: bool,
) -> Estimate:
    """Estimate a step of code on a measured CPU."""
    from tracedb.from_code.cpu.estimation import CpuStep
    from tracedb.from_code.cpu.measured import MeasuredCpu
    from tracedb.from_code.recordings import Source

    measured = MeasuredCpu.load(folder)
    capacity = int(measured.facts["memory_bytes"])
    with tracedb.open() as empty, closing(Source(step, inputs, None)) as source:
        recording = source.at(batch)
        recording.refuse_empty()
        largest_batch = (
            _largest(source, recording, capacity) if find_largest_batch else None
        )
        laid = CpuStep.of(empty.connection, recording, measured)
    low, high = laid.bounds
    return Estimate(
        gpu=None,
        cpu=measured.name,
        batch=recording.batch,
        step_ns=round(laid.expected_ns),
        low_ns=low,
        high_ns=high,
        gpu_active_ns=0,
        kernel_count=0,
        computing_ns=round(laid.computing_ns),
        computing_count=len(laid.nodes),
        new_pages_ns=round(sum(laid.pages_ns.values())),
        memory=recording.memory,
        capacity_bytes=capacity,
        largest_batch=largest_batch,
        unmodelled=laid.unmodelled,
        source="",
        unsure=recording.unsure,
        links=None,
        error_sources=largest_sources(laid.sources),
        _layout=laid,
        _path=":memory:" if database is None else database,
    )


def _on_gpu(  # noqa: PLR0913 (what `estimate` was given)
    step: Callable[..., object] | str | Path,
    inputs: tuple[object, ...],
    gpu: str,
    batch: int | None,
    database: str | Path | None,
    *,
    find_largest_batch: bool,
    **of_gpus: Unpack[_OfGpus],
) -> Estimate:
    """Estimate a step of code, or of an execution graph, on a GPU."""
    with tracedb.open() as empty, ExitStack() as stack:
        ranks = of_gpus["ranks"]
        device, links = connected(
            *(empty.connection, gpu, ranks),
            *(of_gpus["ranks_per_node"], of_gpus["network"]),
        )
        if is_graph(step):
            if find_largest_batch:
                raise EstimateError(
                    f"{step}: the largest batch that fits is found for code alone; "
                    "compare the memory of the graph at some sizes (--batch)"
                )
            subject: Subject = _of_graphs(
                *(graph_files(step, inputs), device.name, ranks),
                *(batch, of_gpus["recorded_batch"]),
            )
            if isinstance(subject, JobRecording) and of_gpus["cuda_graph"]:
                raise EstimateError(_NO_GRAPHS)
            largest_batch = None
        else:
            from tracedb.from_code.recordings import Source

            if of_gpus["recorded_batch"] is not None:
                raise EstimateError(
                    f"{step}: only an execution graph has a recorded batch size"
                )
            refuse_alone(ranks, of_gpus["ranks_per_node"], of_gpus["network"])
            job = Job(ranks, device.per_node)
            first = Source(step, inputs, device.name, job)
            source: Source | JobSource = stack.enter_context(closing(first))
            recording: Recording | JobRecording | None = alone(first, batch)
            if recording is None:
                if of_gpus["cuda_graph"]:
                    raise EstimateError(_NO_GRAPHS)
                first.close()
                source = JobSource(step, inputs, device.name, first.job)
                recording = source.at(batch)
            subject = recording
            largest_batch = (
                _largest(source, recording, device.capacity_bytes)
                if find_largest_batch
                else None
            )
        host, table = known(
            empty, database, of_gpus["library"], subject, profiled=of_gpus["profiled"]
        )
        ranks_run = subject.ranks if isinstance(subject, JobRecording) else [subject]
        programs = [launch(rank.root, table) for rank in ranks_run]
        works = price(empty.connection, {device: programs})[device]
    nodes, times = list(chain(*programs)), list(chain(*works))
    layout: Layout | JobLayout
    if isinstance(subject, JobRecording):
        starts = checked_starts(of_gpus["starts_ns"], len(subject.ranks))
        layout = JobLayout(subject.ranks, host, works, device, starts, subject.world)
        low, expected, high = layout.bounds(*_HOST_BAND)
    else:
        checked_starts(of_gpus["starts_ns"], 1)
        is_captured = of_gpus["cuda_graph"]
        layout = Layout(subject.root, host, times, device, is_captured=is_captured)
        low, expected, high = Courses.of(layout.course).bounds(times)
    return Estimate(
        gpu=device.hardware,
        cpu=None,
        batch=subject.batch,
        step_ns=expected,
        low_ns=low,
        high_ns=high,
        gpu_active_ns=layout.active_ns,
        kernel_count=len(times),
        computing_ns=0,
        computing_count=0,
        memory=subject.memory,
        capacity_bytes=device.capacity_bytes,
        largest_batch=largest_batch,
        unmodelled=_unmodelled(nodes, times),
        source=subject.source,
        unsure=subject.unsure,
        links=links if device.machine(nodes) else None,
        error_sources=(),
        stages=layout.stages if isinstance(layout, JobLayout) else (),
        _layout=layout,
        _path=":memory:" if database is None else database,
    )


def alone(source: Source, batch: int | None) -> Recording | None:
    """The recording of rank 0; None if it depends on what other ranks do."""
    try:
        recording = source.at(batch)
    except NeedsRanksError:
        return None
    recording.refuse_empty()
    if recording.has_messages:
        return None
    if not recording.fake.shared or _is_alike(source, recording, batch):
        return replace(recording, is_of_all=True)
    return recording if (source.job.ranks or 1) > MOST_RANKS else None


def _is_alike(source: Source, recording: Recording, batch: int | None) -> bool:
    """Whether another rank gives the same known numbers to collectives."""
    source.close()
    other = source.of_last_rank()
    try:
        return other.at(batch).fake.shared == recording.fake.shared
    except EstimateError:
        return False
    finally:
        other.close()


def _of_graphs(
    files: Sequence[Path],
    gpu: str,
    ranks: int | None,
    batch: int | None,
    recorded_batch: int | None,
) -> Subject:
    """The step of an execution graph, or of those of several ranks, on a GPU."""
    from tracedb.from_code.graph import read_all
    from tracedb.from_code.graph_batch import at_batch
    from tracedb.from_code.graph_job import job_of
    from tracedb.from_code.graph_program import subject

    if recorded_batch is not None and batch is None:
        raise EstimateError(
            f"{files[0]}: the recorded batch size serves to estimate another one; give "
            "that as well (--batch)"
        )
    graphs = read_all(files)
    if batch is not None:
        graphs = [at_batch(graph, batch, recorded_batch) for graph in graphs]
    if len(graphs) > 1:
        return job_of(graphs, ranks, gpu)
    return subject(graphs[0], ranks, gpu=gpu)


def known(
    empty: tracedb.Database,
    database: str | Path | None,
    library: str | Path | None,
    subject: Subject,
    *,
    profiled: bool = False,
) -> tuple[HostTimes, LaunchTable]:
    """Host times and launches, as shipped or from the user's traces and library."""
    host = HostTimes.shipped(recorded=profiled)
    tf32 = {
        "tf32_products": subject.tf32_products,
        "tf32_convolutions": subject.tf32_convolutions,
    }
    if database is None:
        table = LaunchTable.of(empty.connection, **tf32)
    else:
        with tracedb.open(database) as own:
            table = LaunchTable.of(own.connection, **tf32)
            host = host.with_graphs_of(own.connection)
    return host if library is None else host.with_library(library), table


@dataclass(frozen=True)
class Courses:
    """The course of a step on a fast, a typical and a slow host."""

    fast: Course
    usual: Course
    slow: Course

    @classmethod
    def of(cls, course: Course) -> Courses:
        """Scale the host times of a course for each host."""
        fast, slow = _HOST_BAND
        return cls(course.slowed(fast), course.slowed(1.0), course.slowed(slow))

    def bounds(self, times: Sequence[KernelTime]) -> tuple[int, int, int]:
        """[ns] The last step with host and kernels fast, as expected, and slow."""
        return (
            self.fast.last_step_ns([time.low for time in times]),
            self.usual.last_step_ns([time.expected for time in times]),
            self.slow.last_step_ns([time.high for time in times]),
        )


def _ingest(database: tracedb.Database, texts: Sequence[str], device: str) -> None:
    """Ingest the steps of all ranks that were run, as one run."""
    from tracedb.ingest import ingest

    with TemporaryDirectory(prefix="tracedb-") as folder:
        files = []
        for rank, text in enumerate(texts):
            part = f" rank {rank}" if len(texts) > 1 else ""
            files.append(Path(folder, f"estimate {device}{part}.json"))
            files[-1].write_text(text)
        ingest(
            database.connection,
            files,
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


def _largest(
    source: Source | JobSource,
    recording: Recording | JobRecording,
    capacity: int | None,
) -> int | None:
    """The largest batch size that fits, confirmed by a recording.

    Pipelines split batches into equal parts: only multiples of the size are tried.
    """
    batch = recording.batch
    if batch is None or capacity is None or not recording.takes_batch:
        return None

    unit = batch if isinstance(recording, JobRecording) else 1

    def needed(units: int) -> int:
        size = units * unit
        there = recording if size == batch else source.at(size)
        return there.memory.peak_bytes

    found = largest(needed, batch // unit, room(capacity), _FEW)
    return None if found is None else found * unit
