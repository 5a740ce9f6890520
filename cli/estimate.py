"""`tracedb estimate`: what a training step would take on a GPU it never ran on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from tracedb.words import counted, duration, share, shortened

from . import options
from .output import to_stdout
from .streams import prints_to_stderr
from .terminal import tell, write_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tracedb import Estimate

_SWEPT = (
    *("batch", "gpu", "step_ns", "gpu_active_ns", "samples_per_second"),
    *("peak_bytes", "fits", "largest_batch"),
)
_LISTED = 5
_NAME = 70
_RANKS = 8


def _starts(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> tuple[int, ...]:
    """[ns] Read start times that are given in ms."""
    parts = [] if text is None else text.split(",")
    try:
        return tuple(round(1e6 * float(part)) for part in parts)
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is no list of times in ms, such as 0,5.2,1.1"
        ) from None


@click.command(
    short_help="Estimate a training step from its code alone.",
    epilog=options.examples(
        "tracedb estimate train.py:step --gpu H100",
        "tracedb estimate train.py:step --gpu A100 --batch 4096 --largest-batch",
        "tracedb estimate train.py:step --sweep batch=256..4096 --sweep gpu=A100,H100",
        "tracedb estimate train.py:step --gpu H100 --ranks 64 --ranks-per-node 8",
        "tracedb estimate train.py:step --gpu H100 -- --hidden 4096",
        "tracedb estimate graph.json --gpu A100 --batch 4096",
        "tracedb estimate graphs/ --gpu A100 --starts 0,5.2,1.1,3",
        "tracedb estimate train.py:step --cpu this-cpu/",
        "tracedb estimate train.py:step --gpu H100 --db step.duckdb",
        "tracedb summary step.duckdb",
    ),
)
@click.argument("step", metavar="FILE:FUNCTION|GRAPH...")
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENTS]")
@click.option(
    "--gpu",
    metavar="NAME",
    help="The GPU, by a name that `tracedb kernels hardware` lists.",
)
@click.option(
    "--cpu",
    metavar="FOLDER",
    type=click.Path(),
    help="Or a CPU, measured into a folder by `tracedb kernels cpu`.",
)
@click.option(
    "--batch",
    type=click.IntRange(1),
    metavar="N",
    help="Batch size, passed as the function's parameter `batch` or `batch_size`; or "
    "of a graph, whose sizes follow it where its ops show that they do.",
)
@click.option(
    "--recorded-batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Batch size of the graph, if its inputs do not show it.",
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="FIELD=VALUES",
    help="Make many estimates from a few recordings: batch=256..65536 (doubling), "
    "batch=256..65536:20 (20 values), batch=256,300, gpu=A100,H100. May be given for "
    "both fields.",
)
@click.option(
    "--db",
    "database",
    metavar="DB",
    type=click.Path(),
    help="Write the estimated run to DB, for all other commands. Traces that DB "
    "already holds show which kernels ops launch.",
)
@click.option(
    "--library",
    metavar="FILE",
    type=click.Path(),
    help="Take host times from a file of `tracedb overheads learn`, instead of the "
    "ones that ship with tracedb.",
)
@click.option(
    "--cuda-graph",
    is_flag=True,
    help="Launch the kernels of the step as CUDA graphs: ops take no host time.",
)
@click.option(
    "--profiled",
    is_flag=True,
    help="Estimate the step under PyTorch's profiler, which slows the host. Use this "
    "to compare with a trace.",
)
@click.option(
    "--largest-batch", is_flag=True, help="Also find the largest batch that fits."
)
@click.option(
    "--ranks",
    type=click.IntRange(2),
    metavar="N",
    help="Number of ranks. If the code has no process group, gradients are averaged as "
    "DistributedDataParallel does.",
)
@click.option(
    "--ranks-per-node",
    type=click.IntRange(1),
    metavar="N",
    help="Ranks per node. Default: the GPUs of such a node (see `tracedb kernels "
    "hardware`).",
)
@click.option(
    "--network",
    type=float,
    metavar="GB/S",
    help="Bandwidth from each rank to other nodes. Default: as listed there.",
)
@click.option(
    "--starts",
    metavar="MS,MS,...",
    callback=_starts,
    help="When each rank starts the step, in ms, in the order of the ranks. For graphs "
    "of several ranks. Default: when it has ended the step before.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "csv", "parquet"]),
    default="text",
    show_default=True,
    help="Text for reading, or all figures by name (in nanoseconds and bytes). A sweep "
    "can also be csv or parquet.",
)
def estimate(  # noqa: PLR0913 (the options of the command)
    *,
    step: str,
    arguments: tuple[str, ...],
    gpu: str | None,
    cpu: str | None,
    batch: int | None,
    recorded_batch: int | None,
    sweeps: tuple[str, ...],
    database: str | None,
    library: str | None,
    cuda_graph: bool,
    profiled: bool,
    largest_batch: bool,
    ranks: int | None,
    ranks_per_node: int | None,
    network: float | None,
    starts: tuple[int, ...],
    format_: str,
) -> None:
    """Estimate a training step on a GPU that you need not have, or on a CPU.

    The step is given by its code, or by an execution graph that PyTorch's
    ExecutionTraceObserver recorded on a CPU or any GPU. The output lists what the graph
    leaves open. Several graphs, a folder or a pattern ('graphs/*.json') are ranks of
    one job, which wait for one another in collectives.

    The function must run one step per call. It runs on PyTorch's fake tensors, which
    need no memory and no GPU. What follows `--` is the command line of the script.
    Launches, their times and the peak GPU memory are derived
    from the ops that it dispatches. A step whose control flow depends on tensor values
    cannot be estimated; the error names the line.

    A sweep records the step at three batch sizes. If ops or sizes do not follow the
    batch size (a loop over the batch, padding), the sweep fails with an error that
    names the line.
    """
    # PyTorch's profiler would log its start and end to stderr.
    os.environ.setdefault("KINETO_LOG_LEVEL", "9")
    if sweeps:
        if cpu is not None:
            raise click.UsageError("--sweep is of GPUs; estimate a CPU batch by batch")
        if starts:
            raise click.UsageError("--starts is of graphs, and a sweep takes code")
        if recorded_batch is not None:
            raise click.UsageError(
                "--recorded-batch is of graphs, and a sweep takes code"
            )
        output = to_stdout("table" if format_ == "text" else format_)
        from tracedb.from_code.points import points
        from tracedb.from_code.sweep import estimate_sweep

        batches, gpus = points(sweeps)
        with prints_to_stderr():
            frame = estimate_sweep(
                step,
                *arguments,
                gpus=gpus or [_needed(gpu)],
                batches=batches or ([] if batch is None else [batch]),
                database=database,
                library=library,
                cuda_graph=cuda_graph,
                profiled=profiled,
                ranks=ranks,
                ranks_per_node=ranks_per_node,
                network=network,
                tell=tell,
            )
        output.rows(frame, _SWEPT, None)
        return
    if format_ not in {"text", "json"}:
        raise click.UsageError(
            f"--format {format_} needs --sweep; for one estimate use json"
        )
    from tracedb.from_code.estimation import estimate as run

    with prints_to_stderr():
        found = run(
            step,
            *arguments,
            gpu=gpu if cpu is not None else _needed(gpu),
            cpu=cpu,
            batch=batch,
            recorded_batch=recorded_batch,
            database=database,
            library=library,
            cuda_graph=cuda_graph,
            profiled=profiled,
            find_largest_batch=largest_batch,
            ranks=ranks,
            ranks_per_node=ranks_per_node,
            network=network,
            starts_ns=starts,
        )
    if database is not None:
        found.database.close()
    if format_ == "json":
        _write_json(found)
    else:
        to_stdout("table").text("\n".join(lines(found)))


def _needed(gpu: str | None) -> str:
    if gpu is None:
        raise click.UsageError("Missing option '--gpu', or '--sweep gpu=...'")
    return gpu


def _write_json(found: Estimate) -> None:
    import json
    from dataclasses import asdict, fields

    kept = {
        f.name: getattr(found, f.name)
        for f in fields(found)
        if not f.name.startswith("_")
    }
    kept["memory"] = asdict(found.memory)
    kept["stages"] = [asdict(stage) for stage in found.stages]
    kept["error_sources"] = [asdict(source) for source in found.error_sources]
    kept["links"] = asdict(found.links) if found.links else None
    write_text(json.dumps(kept, indent=2))


def lines(found: Estimate) -> Iterator[str]:
    """The estimate as lines of text."""
    batch = f", batch {found.batch:,}" if found.batch else ""
    yield f"Estimate for {found.device}{batch}; nothing was run"
    if found.source:
        yield f"        {found.source}"
    yield ""
    yield (
        f"Step    {duration(found.step_ns)} "
        f"({duration(found.low_ns)} to {duration(found.high_ns)})"
    )
    yield from _error(found)
    yield _busy(found)
    yield from _stages(found)
    yield from _unmodelled(found)
    yield from _links(found)
    yield from _memory(found)
    yield from _unsure(found)


def _busy(found: Estimate) -> str:
    """The busy time, as text."""
    if found.stages:
        computing = sum(stage.computing_ns for stage in found.stages)
        part = share(computing / max(found.step_ns * len(found.stages), 1))
        return (
            f"GPUs    compute {part} of the step on average (the rest is idle, with "
            f"the bubbles) in {counted(found.kernel_count, 'GPU op')}"
        )
    if found.gpu is None:
        part = share(found.computing_ns / max(found.step_ns, 1))
        pages = (
            f", new pages of memory take {duration(found.new_pages_ns)}"
            if found.new_pages_ns
            else ""
        )
        return (
            f"Ops     compute {duration(found.computing_ns)} ({part}) in "
            f"{counted(found.computing_count, 'op')}{pages}; "
            "the rest is Python and PyTorch"
        )
    part = share(found.gpu_active_ns / max(found.step_ns, 1))
    return (
        f"GPU     active {duration(found.gpu_active_ns)} ({part}) in "
        f"{counted(found.kernel_count, 'GPU op')}"
    )


def _stages(found: Estimate) -> Iterator[str]:
    """The ranks of a pipeline, as text."""
    for stage in found.stages[:_RANKS]:
        yield (
            f"        rank {stage.rank}: {duration(stage.step_ns)}, GPU active "
            f"{duration(stage.active_ns)}, computes {duration(stage.computing_ns)} "
            f"({share(stage.computing_ns / max(found.step_ns, 1))} of the step), "
            f"{_size(stage.memory.peak_bytes)} at the peak"
        )
    if len(found.stages) > _RANKS:
        yield f"        and {len(found.stages) - _RANKS} more: --format json"


def _error(found: Estimate) -> Iterator[str]:
    """The largest error sources, as text."""
    if found.error_sources:
        parts = ", ".join(
            f"{source.name} {duration(round(source.error_ns))}"
            for source in found.error_sources
        )
        yield f"        off most by: {parts}"


def _unmodelled(found: Estimate) -> Iterator[str]:
    if found.unmodelled:
        names = ", ".join(sorted(found.unmodelled))
        count = sum(found.unmodelled.values())
        yield f"        {count} of these have no model: {shortened(names, _NAME)}"


def _links(found: Estimate) -> Iterator[str]:
    links = found.links
    if links is not None:
        within = links.node_bytes_per_second / 1e9
        between = links.network_bytes_per_second / 1e9
        yield (
            f"Links   {within:,.4g} GB/s per GPU within a node of {links.per_node}, "
            f"{between:,.4g} GB/s to other nodes, "
            f"{duration(links.network_latency_ns)} per hop"
        )


def _unsure(found: Estimate) -> Iterator[str]:
    if found.unsure:
        yield f"Unsure  {counted(len(found.unsure), 'thing')} left open"
    for line in found.unsure[:_LISTED]:
        yield f"        {line}"
    if len(found.unsure) > _LISTED:
        yield f"        and {len(found.unsure) - _LISTED} more: --format json"


def _memory(found: Estimate) -> Iterator[str]:
    memory = found.memory
    held = [(size, kind) for kind, size in memory.by_kind.items() if size]
    parts = ", ".join(
        f"{kind} {_size(size)}" for size, kind in sorted(held, reverse=True)
    )
    of = f" of {_size(found.capacity_bytes)}" if found.capacity_bytes else ""
    place = f", in {memory.peak_op}" if memory.peak_op else ""
    yield f"Memory  {_size(memory.peak_bytes)} at the peak{of}{place}"
    if parts:
        yield f"        {parts}"
    for kind, words, size in memory.largest[:_LISTED]:
        yield f"        {_size(size):>9}  {kind}: {shortened(words, _NAME)}"
    if found.largest_batch is not None:
        yield f"        largest batch that fits: {found.largest_batch:,}"


def _size(count: int) -> str:
    """Format a size.

    >>> _size(1_500_000)
    '1.50 MB'
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} B"
