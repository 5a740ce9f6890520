"""Predict steps of real traces with all times learned from other traces: a page.

    python benchmarks/unseen_steps.py --write docs/unseen-steps.md

Each trace of the corpus with steps and shapes is a graph of ops, launches and waits.
Host times are those of the other traces, times of GPU work those of the shipped models,
so a step is predicted as if it had never run.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from accuracy import has_steps, short
from explained import traces
from host_traces import learn, read, samples
from measure import CORPUS, tell
from pages import filled, parser, publish, table
from recorded_host_times import TRACES
from recorded_host_times import page as times_of

import tracedb
from tracedb import overhead_library, usual_overheads
from tracedb.from_code.host_times import HostTimes
from tracedb.whatif.simulation import simulated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    from host_traces import Samples

GOAL = 12
"""[%] The median error."""
LEAST_WORK = 20
"""Traces with less GPU work in their steps are left out."""
LEAST_SHAPES = 0.5
"""And those of whose GPU time fewer shapes are known."""
MOST_GIVEN = 0.5
"""And those of whose host time more is the program's own."""
LIN2022 = "Lin et al."
SAID = {
    "all learned": "library",
    "host learned": "learned host",
    "GPU work learned": "learned work",
    LIN2022: "lin2022",
}
"""The columns, with their method."""
ROOFLINE = "roofline only"
HELD_OUT = "dlrm8"
"""Ranks of one job, which are a host together."""

# Methods of this page, in place of those of tracedb: all times learned elsewhere, or
# some as measured.
METHODS = """
CREATE OR REPLACE VIEW prediction.method AS
SELECT *
FROM (
    VALUES
    ('library', 91, 'library', true, true, false),
    ('learned host', 92, 'library', false, true, false),
    ('learned work', 93, NULL, true, true, false),
    ('lin2022', 94, 'run', false, false, false)
) AS known (method, position, host_from, models_kernels, is_simulated, is_stored)
"""

# Time of GPU work in steps: all of it, of known shape, and by the roofline.
WORK = """
SELECT
    count(*) AS works,
    coalesce(sum(end_ns - start_ns), 0)::BIGINT AS measured,
    coalesce(sum(end_ns - start_ns) FILTER (predicted_ns > 0), 0)::BIGINT AS told,
    coalesce(sum(roofline_ns), 0)::BIGINT AS roofline
FROM staging.step_work
INNER JOIN staging.gpu_op USING (gpu_op_id)
LEFT JOIN prediction.kernel_time AS time USING (gpu_op_id)
LEFT JOIN prediction.kernel_roofline USING (gpu_op_id)
"""
# What no other trace tells of this one: calibration, and when other ranks are late.
FORGET = (
    "DELETE FROM prediction.kernel_factor",
    """
    UPDATE staging.gpu_op SET is_collective = false
    WHERE is_collective AND gpu_op_id IN (SELECT gpu_op_id FROM prediction.kernel_time)
    """,
)
STEPS = """
SELECT
    method,
    count(*) AS steps,
    sum(measured_ns)::BIGINT AS measured,
    sum(predicted_ns)::BIGINT AS predicted,
    avg(as_measured_share) AS given
FROM critical_path.step_time
WHERE scenario = 'baseline' AND measured_ns > 0
GROUP BY method
"""
ACTIVE = """
SELECT sum(measured_ns)::BIGINT AS measured, sum(predicted_ns)::BIGINT AS predicted
FROM question.gpu_active
WHERE scenario = 'baseline' AND method = 'library' AND measured_ns > 0
"""

ABOUT = """# Steps with everything learned elsewhere

Written by `python benchmarks/unseen_steps.py --write docs/unseen-steps.md` over a
corpus of real traces. Each trace is predicted as if its steps had never run: what is
taken from it are its ops, launches and waits, as a graph has them.

- *All learned*: host times are those of the middle host of the other traces (of
  `benchmarks/recorded_host_times.py`, by op; the ranks of dlrm8 are never learned
  from); GPU work takes what the models that ship with tracedb say of its shapes,
  without calibration (work of unknown shape is as measured); a collective does not
  wait for ranks that are late.
- *Host learned* and *GPU work learned* learn only one of them; the other is as
  measured.
- *Lin et al.* is the published algorithm, with overheads and kernel times of the
  trace itself.
- *Roofline only* is the sum of the roofline's times of all GPU work, without a host.
- *GPU active* is the error of the time in which the GPU is busy, with all learned.
- *Not learned* is the share of host time that no other trace tells: gaps of 200 us
  and more between ops, which are the program's, and loading of data. It is as
  measured.

Errors are predicted / measured - 1 over the sum of a trace's steps, in %. The ranks
of one job count once in medians, with their mean. Traces are left out if their steps
have fewer than {least} pieces of GPU work, shapes are known for less than half of its
time, or more than half of the host's time is the program's own.
"""
MEDIAN = """\
The median absolute error is {middle:.1f} % (goal {goal}); by the roofline alone it
is {roofline:.0f} %, by the published algorithm, which has seen the trace,
{lin2022:.0f} %. With GPU work as measured and the host learned, as in `tracedb
predict --method library`, it is {host:.1f} %. What is left has three causes that no
graph shows: hosts of 2020 and 2021 whose ops took longer than those of the middle
host (resnet50), ranks that are late (dlrm8, trace_diff_control), and what PCIe
reaches on a host (torchbench).
"""

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trace:
    """A trace, and sums over its steps."""

    name: str
    gpu: str
    steps: Mapping[str, Row]
    """By method."""
    active: Row
    work: Row

    @property
    def measured_ns(self) -> int:
        """[ns] Its steps."""
        measured: int = self.steps["library"]["measured"]
        return measured

    @property
    def host(self) -> str:
        """What counts once in the median."""
        return HELD_OUT if HELD_OUT in self.name else self.name

    @property
    def given(self) -> float:
        """[1] Share of host time that no other trace tells."""
        share: float = self.steps["library"]["given"]
        return share

    def errors(self) -> dict[str, float]:
        """[1] Errors by column."""
        said = {name: self.steps[method]["predicted"] for name, method in SAID.items()}
        said[ROOFLINE] = self.work["roofline"]
        return {name: ns / self.measured_ns - 1 for name, ns in said.items()}

    def active_error(self) -> float:
        """[1] Of the time in which GPUs are active."""
        error: float = self.active["predicted"] / self.active["measured"] - 1
        return error


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__)
    asked.add_argument("--only", default="", help="traces with this in their name")
    chosen = asked.parse_args()
    hosts = {name: samples(read(CORPUS / name)) for name in TRACES}
    found = [
        trace
        for path in traces()
        if chosen.only in str(path) and has_steps(path)
        for trace in _trace(path, hosts)
    ]
    publish(page(found), chosen.write)


def _trace(path: Path, hosts: Mapping[str, Samples]) -> Iterator[Trace]:
    """The trace, if it shows what its steps do."""
    name = str(path.relative_to(CORPUS))
    tell(name)
    others = {other: found for other, found in hosts.items() if other != name}
    times = HostTimes(**times_of(learn(others)))
    with tracedb.open() as database:
        database.ingest([path])
        connection = database.connection
        [work] = _rows(connection, WORK)
        if work["works"] < LEAST_WORK or work["told"] < LEAST_SHAPES * work["measured"]:
            return
        for statement in (*FORGET, METHODS):
            connection.execute(statement)
        [gpu] = _rows(connection, "SELECT any_value(gpu) AS gpu FROM staging.trace_gpu")
        with TemporaryDirectory() as folder:
            library = Path(folder, "elsewhere.parquet")
            _library(connection, times, library)
            methods = tuple(SAID.values())
            with simulated(connection, methods, library=library) as beside:
                steps = {row["method"]: row for row in _rows(beside, STEPS)}
                [active] = _rows(beside, ACTIVE)
    found = Trace(short(str(path)), gpu["gpu"] or "not named", steps, active, work)
    if found.given < MOST_GIVEN and active["measured"]:
        tell(f"  {found.errors()}")
        yield found


def _library(
    connection: duckdb.DuckDBPyConnection, times: HostTimes, path: Path
) -> None:
    """Write the overheads of the trace's spans, with learned times, as a library."""
    usual_overheads.load(connection, times)
    rows = connection.sql("FROM reference.library_sample").to_arrow_table()
    connection.execute("DELETE FROM reference.library_sample")
    known = {"tracedb.overhead_library": overhead_library.FORMAT}
    pq.write_table(rows.replace_schema_metadata(known), path)


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    return list(connection.sql(query).pl().iter_rows(named=True))


def page(found: Sequence[Trace]) -> str:
    """The whole page."""
    errors = {trace: trace.errors() for trace in found}
    head = ["trace", "GPU", "steps", "step, ms", *SAID, ROOFLINE]
    head += ["GPU active", "not learned, %"]
    cells = [
        [
            trace.name,
            trace.gpu,
            str(trace.steps["library"]["steps"]),
            f"{trace.measured_ns / trace.steps['library']['steps'] / 1e6:.2f}",
            *(f"{100 * error:+.1f}" for error in errors[trace].values()),
            f"{100 * trace.active_error():+.1f}",
            f"{100 * trace.given:.0f}",
        ]
        for trace in found
    ]
    columns = (*SAID, ROOFLINE)
    middle = [_middle({t: errors[t][name] for t in found}) for name in columns]
    middle.append(_middle({t: t.active_error() for t in found}))
    cells.append(
        [
            "**median, absolute**",
            "",
            "",
            "",
            *(f"{100 * one:.1f}" for one in middle),
            "",
        ]
    )
    shares = dict(zip(columns, (100 * one for one in middle), strict=False))
    said = filled(
        MEDIAN, goal=GOAL, middle=100 * middle[0], host=shares["host learned"],
        roofline=shares[ROOFLINE], lin2022=shares[LIN2022],
    )  # fmt: skip
    about = ABOUT.format(least=LEAST_WORK)
    return "\n".join([about, said, "", *table(head, cells, left=2)]) + "\n"


def _middle(errors: Mapping[Trace, float]) -> float:
    """The median absolute error over hosts; those of ranks of one job are averaged."""
    by_host: dict[str, list[float]] = defaultdict(list)
    for trace, error in errors.items():
        by_host[trace.host].append(abs(error))
    return median(fmean(each) for each in by_host.values())


if __name__ == "__main__":
    main()
