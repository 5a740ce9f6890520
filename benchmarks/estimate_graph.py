"""Compare estimates from execution graphs with measured steps and other methods.

    python benchmarks/estimate_graph.py FOLDER

takes a folder with the graphs of ranks (`et/`) and the traces of the same run
(`kineto/`), in the same order, and rewrites the part of `docs/estimate.md` on graphs.
Each rank is estimated from its graph; the traces tell what was measured, and the host
times of the other ranks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import graph_parts
from graph_parts import SWAPPED, Swaps

import tracedb
from tracedb import overhead_library

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tracedb.from_code.layout import Layout

PAGE = Path(__file__).parent.parent / "docs" / "estimate.md"
HEADING = "## How good graphs are\n"
_NEXT = "## Hosts that were not seen\n"
_GPU = "V100"
_RANKS = 8
_LEAST = 0.001
"""Smaller errors count as this in the geometric mean."""

_STEP = """
SELECT start_ns, end_ns - start_ns FROM staging.step WHERE trace_id = $trace
"""
# What was launched before the recording is of a step before.
_WORK = """
SELECT start_ns, end_ns
FROM staging.gpu_op
WHERE call_id IS NOT NULL AND (NOT is_collective OR $collectives)
ORDER BY start_ns
"""
_ROOFLINE = """
SELECT sum(roofline_ns) // 2
FROM prediction.kernel_roofline
"""


@dataclass(frozen=True)
class Rank:
    """[ns] Measured and estimated times of a rank."""

    name: str
    step: int
    begin: int
    parts: dict[str, int]
    estimated_parts: dict[str, int]
    swaps: Swaps
    active: int
    computing: int
    shipped: tracedb.Estimate
    profiled: tracedb.Estimate
    shared: tracedb.Estimate
    estimated_computing: int
    roofline: int
    lin2022: int

    @property
    def alone(self) -> int:
        """The step without waits for other ranks."""
        return self.step - self.parts["waiting for other ranks"]


def main(folder: Path) -> None:
    """Run all estimates and write the page's part."""
    pairs = zip(
        sorted(folder.glob("et/*")), sorted(folder.glob("kineto/*")), strict=True
    )
    with TemporaryDirectory() as scratch:
        traces: list[tuple[Path, Path, Path]] = []
        for graph, trace in pairs:
            database = Path(scratch, f"{len(traces)}.duckdb")
            with tracedb.open(database) as opened:
                opened.ingest([trace])
            traces.append((graph, trace, database))
        with tracedb.open(Path(scratch, "job.duckdb")) as job:
            job.ingest([trace for _, trace, _ in traces])
            ranks = list(_ranks(traces, job, Path(scratch, "library.parquet")))
        graphs = [graph for graph, _, _ in traces]
        begins = [rank.begin - min(r.begin for r in ranks) for rank in ranks]
        jobs = [
            tracedb.estimate(
                *graphs, gpu=_GPU, ranks=_RANKS, profiled=True, starts_ns=starts
            )
            for starts in ((), begins)
        ]
    head, _, rest = PAGE.read_text().partition(_NEXT)
    head = head.partition(HEADING)[0]
    lines = "\n".join(_section(ranks, jobs))
    PAGE.write_text(f"{head}{HEADING}\n{lines}\n\n{_NEXT}{rest}")


def _ranks(
    traces: Sequence[tuple[Path, Path, Path]], job: tracedb.Database, library: Path
) -> Iterator[Rank]:
    """Each rank alone; waits are computed over all ranks of the job."""
    for number, (graph, trace, database) in enumerate(traces, 1):
        others = [other for _, _, other in traces if other != database]
        overhead_library.learn(others, library)
        shipped = tracedb.estimate(graph, gpu=_GPU, ranks=_RANKS)
        profiled = tracedb.estimate(graph, gpu=_GPU, ranks=_RANKS, profiled=True)
        shared = tracedb.estimate(graph, gpu=_GPU, ranks=_RANKS, library=library)
        ((begin, step),) = job.connection.execute(_STEP, {"trace": number}).fetchall()
        with tracedb.open(database) as measured, profiled.database as estimated:
            lin2022 = measured.predict("lin2022")["predicted_ns"].max()
            roofline = estimated.sql(_ROOFLINE).item()
            yield Rank(
                graph.name.partition(".")[0],
                step,
                begin,
                graph_parts.parts(job, number),
                graph_parts.parts(estimated, 1),
                Swaps.of(cast("Layout", profiled._layout), job, number, trace),  # noqa: SLF001
                _active(measured, collectives=True),
                _active(measured, collectives=False),
                shipped,
                profiled,
                shared,
                _active(estimated, collectives=False) // 2,
                int(roofline or 0),
                int(lin2022),  # type: ignore[arg-type]
            )


def _active(opened: tracedb.Database, *, collectives: bool) -> int:
    """[ns] How long any stream is busy."""
    rows = opened.connection.execute(_WORK, {"collectives": collectives}).fetchall()
    active = done = 0
    for start, end in rows:
        active += max(end - max(start, done), 0)
        done = max(done, end)
    return active


def _section(ranks: Sequence[Rank], jobs: Sequence[tracedb.Estimate]) -> Iterator[str]:
    """Each rank alone, and in jobs of all graphs, without and with start times."""
    yield _INTRODUCTION
    together, started = ([stage.step_ns for stage in job.stages] for job in jobs)
    columns: dict[str, list[int]] = {
        "graph only": [rank.shipped.step_ns for rank in ranks],
        "graph only, `--profiled`": [rank.profiled.step_ns for rank in ranks],
        "the same, four graphs together": together,
        "and given the ranks' start times": started,
        "host times of the other ranks": [rank.shared.step_ns for rank in ranks],
        "roofline only": [rank.roofline for rank in ranks],
        "Lin et al., from the trace": [rank.lin2022 for rank in ranks],
    }
    steps = [rank.step for rank in ranks]
    yield from _compared("measured [ms]", ranks, steps, columns)
    yield _WITHOUT_WAITING
    alone = [rank.alone for rank in ranks]
    chosen = ("graph only", "graph only, `--profiled`")
    columns = {name: columns[name] for name in chosen}
    yield from _compared("measured, without waiting [ms]", ranks, alone, columns)
    yield _PARTS
    names = [rank.name for rank in ranks]
    measured = [rank.parts for rank in ranks]
    yield from graph_parts.table(names, measured, [r.estimated_parts for r in ranks])
    yield _SWAPS
    columns = {
        name: [said(rank.swaps) for rank in ranks] for name, said in SWAPPED.items()
    }
    yield from _compared("measured [ms]", ranks, steps, columns)
    yield _ON_GPU
    yield from _of_gpu(ranks, jobs[1])


def _compared(
    title: str,
    ranks: Sequence[Rank],
    measured: Sequence[int],
    columns: Mapping[str, Sequence[int]],
) -> Iterator[str]:
    """One row per rank, and the geometric mean of errors."""
    yield f"| rank | {title} | {' | '.join(columns)} |"
    yield f"| --- {'| ---: ' * (1 + len(columns))}|"
    for place, (rank, true) in enumerate(zip(ranks, measured, strict=True)):
        cells = " | ".join(_cell(said[place], true) for said in columns.values())
        yield f"| {rank.name} | {true / 1e6:.2f} | {cells} |"
    means = (
        _mean([abs(s / true - 1) for s, true in zip(said, measured, strict=True)])
        for said in columns.values()
    )
    yield f"| geometric mean | | {' | '.join(f'{mean:.0%}' for mean in means)} |"


def _of_gpu(ranks: Sequence[Rank], started: tracedb.Estimate) -> Iterator[str]:
    yield (
        "| rank | GPU active [ms] | estimated | together, given start times "
        "| without collectives [ms] | estimated |"
    )
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    pairs = list(zip(ranks, started.stages, strict=True))
    for rank, stage in pairs:
        active, computing = rank.active, rank.computing
        yield (
            f"| {rank.name} | {active / 1e6:.2f} "
            f"| {_cell(rank.shipped.gpu_active_ns, active)} "
            f"| {_cell(stage.active_ns, active)} "
            f"| {computing / 1e6:.2f} | {_cell(rank.estimated_computing, computing)} |"
        )
    whole = _mean([abs(r.shipped.gpu_active_ns / r.active - 1) for r in ranks])
    late = _mean([abs(stage.active_ns / rank.active - 1) for rank, stage in pairs])
    part = _mean([abs(r.estimated_computing / r.computing - 1) for r in ranks])
    yield f"| geometric mean | | {whole:.0%} | {late:.0%} | | {part:.0%} |"


_INTRODUCTION = """\
A recommender on eight V100s (public graphs and traces of four ranks, PyTorch 2.1;
`python benchmarks/estimate_graph.py`), each rank estimated from its graph, and from all
four together. The goals are 8% for the step and 5% for the GPU's active time. The steps
were measured with the profiler, which slows their roughly 1,600 ops: `--profiled` uses
host times recorded elsewhere, learned from no rank of this run. Lin et al. subtract the
profiler's overhead. Host times from the other three ranks come from the same machine,
like the paper's shared overheads.

Estimating the graphs together changes nothing by itself, because the ranks do the same
work, and hosts are estimated alike. What it needs is when each rank starts the step
that was recorded (`--starts`), which is in the traces and in no graph: the step of
each rank then ends with the last one.
"""
_WITHOUT_WAITING = """
The measured step of a rank includes waiting for other ranks, which no graph contains:
ranks start their steps up to 7 ms apart. Here this waiting, known from the collectives
of the four ranks, is subtracted:
"""
_PARTS = """
Breakdown of the error of `--profiled`: the measured kinds of time on the critical path,
and the estimate's difference in each, in percent of the step. They add up to the total:
"""
_SWAPS = """
The same estimates with one part as measured: host times by name, each collective
individually, kernels and copies in total. Only collectives bring the step within the
goal on their own. Waiting that start times do not explain is for ranks whose host is
slower within the step, and for the four ranks that were not published.
"""

_ON_GPU = """
GPU work that was launched before the recording is left out. The step's kernels are
short: 253 of them, 4 us on average, nearly as long as the shortest. Estimates lack six
more kernels of 23 products (split sums, bias), and are 1 to 2 us short for each
product, 12 us for a sort by one block, and 1.5 us for each concatenation. No public
measurements of a V100 but these traces have such short kernels alone, so nothing was
fitted to them.
"""


def _cell(said: int, measured: int) -> str:
    return f"{said / 1e6:.2f} ({said / measured - 1:+.0%})"


def _mean(errors: Sequence[float]) -> float:
    """The geometric mean, as in the paper."""
    return exp(fmean(log(max(error, _LEAST)) for error in errors))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
