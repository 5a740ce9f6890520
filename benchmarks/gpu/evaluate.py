"""Say how well recordings are predicted: the paper's tables, of the recorded machine.

    python benchmarks/gpu/evaluate.py recorded/ --write docs/evaluation.md
    python benchmarks/gpu/evaluate.py recorded/ --models models/

Reads what `record.py` left: traces, and beside each the time of steps that nobody
profiled, which all predictions are held against. Runs anywhere; `--models` are what
`tracedb kernels train` made of the microbenchmarks of the same machine.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import tell
from pages import parser, publish, table

import tracedb
from tracedb import overhead_library
from tracedb.scenario import UNPROFILED
from tracedb.simulation import simulated

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

WAYS = {
    "own": "statistics",
    "shared": "library",
    "full": "full",
    "lin2022": "lin2022",
    "lin2022, as profiled": "lin2022_as_profiled",
}
"""What a column of the tables is called, and its method."""
LEAST_ERROR = 0.0001

STEPS = """
SELECT method, median(predicted_ns) AS predicted_ns, median(measured_ns) AS profiled_ns
FROM critical_path.step_time
INNER JOIN prediction.method AS known USING (method)
WHERE
    trace_id = $trace AND step <> $graphed
    AND scenario = CASE WHEN known.is_simulated THEN 'unprofiled' ELSE 'baseline' END
GROUP BY method
"""
ACTIVE = """
SELECT
    sum(predicted_ns) / nullif(sum(end_ns - start_ns), 0) - 1,
    sum(CASE WHEN model IS NOT NULL THEN end_ns - start_ns END)
    / nullif(sum(end_ns - start_ns), 0)
FROM (
    SELECT work.start_ns, work.end_ns, time.predicted_ns, model
    FROM staging.gpu_op AS work
    INNER JOIN prediction.gpu_time AS time
        ON work.gpu_op_id = time.gpu_op_id
    INNER JOIN prediction.variant AS variant
        ON time.variant_id = variant.variant_id
    LEFT JOIN prediction.kernel_time AS modelled
        ON work.gpu_op_id = modelled.gpu_op_id
    WHERE
        work.trace_id = $trace AND method = 'full' AND scenario = 'baseline'
        AND NOT is_collective
)
"""

ABOUT = """# How well recordings are predicted

Written by `python benchmarks/gpu/evaluate.py`. Each model was first timed without any
profiler, several steps back to back, then recorded: that time is what errors are of. An
error is predicted over measured, less 1; GMAE is the geometric mean of the errors
without their signs, each at least 0.01 %, MAPE their mean.

- `own`: host times of the recording's own statistics, less the profiler's estimated
  cost; `shared`: of the other models' recordings alone; both with kernel times as
  measured;
- `full`: as own, kernel times from their models;
- `lin2022`: the algorithm of Lin et al. 2022 with its constants, which take the
  profiler off, too; `lin2022, as profiled` without them;
- GPU active: the time of all kernels, as their models have it.
"""


@dataclass(frozen=True)
class Recorded:
    """A recording: its files, and what the steps took that nobody profiled."""

    name: str
    kineto: Path
    facts: dict[str, Any]

    @property
    def workload(self) -> str:
        """The model; recordings of one model do not learn from each other as shared."""
        return str(self.facts.get("workload", self.name))

    @property
    def step_ns(self) -> float:
        """The per-batch time: of steps back to back."""
        return float(self.facts["back_to_back_step_ns"])

    @property
    def graphed_step(self) -> int:
        """The step that the execution graph was made in, which took long; or -1."""
        text = str(self.facts.get("execution_graph_step") or "#-1")
        return int(text.rpartition("#")[2])


@dataclass(frozen=True)
class Result:
    """What is predicted of a recording, by the name of the column."""

    recorded: Recorded
    profiled_ns: float
    errors: dict[str, float] = field(default_factory=dict)
    active: float | None = None
    modelled: float | None = None


def recordings(folder: Path) -> list[Recorded]:
    """What lies in a folder, by name."""
    found = []
    for measured in sorted(folder.rglob("*.measured.json")):
        name = measured.name.removesuffix(".measured.json")
        kineto = measured.with_name(f"{name}.kineto.json.gz")
        if kineto.exists():
            found.append(Recorded(name, kineto, json.loads(measured.read_text())))
    return found


def evaluate(
    recorded: list[Recorded], folder: Path, models: Path | None
) -> Iterator[Result]:
    """Predict all recordings, a database for each model; databases go to a folder."""
    of_model: dict[str, list[Recorded]] = {}
    for one in recorded:
        of_model.setdefault(one.workload, []).append(one)
    databases = {name: folder / f"{name}.duckdb" for name in of_model}
    for name, own in of_model.items():
        tell(f"ingesting {name}")
        with tracedb.open(databases[name]) as database:
            database.ingest([one.kineto for one in own])
            if models is not None:
                database.apply_models(models)
    for name, own in of_model.items():
        others = [path for other, path in databases.items() if other != name]
        library = folder / "library.parquet"
        if others:
            overhead_library.learn(others, library)
        with tracedb.open(databases[name], read_only=True) as database:
            tell(f"predicting {name}")
            yield from predicted(database, own, library if others else None)


def predicted(
    database: tracedb.Database, own: list[Recorded], library: Path | None
) -> Iterator[Result]:
    """Predict the recordings in a database, in their order."""
    methods = [method for method in WAYS.values() if library or method != "library"]
    with simulated(database.connection, methods, [UNPROFILED], library) as connection:
        query = "SELECT trace_id FROM staging.trace WHERE path = ?"
        for one in own:
            ((trace,),) = connection.execute(query, [str(one.kineto)]).fetchall()
            yield result(connection, one, trace)


def result(connection: duckdb.DuckDBPyConnection, one: Recorded, trace: int) -> Result:
    """What the methods say of one recording."""
    given = {"trace": trace, "graphed": one.graphed_step}
    found = {
        method: (time, profiled)
        for method, time, profiled in connection.execute(STEPS, given).fetchall()
    }
    errors = {
        name: found[method][0] / one.step_ns - 1
        for name, method in WAYS.items()
        if method in found and found[method][0] is not None
    }
    ((active, modelled),) = connection.execute(ACTIVE, {"trace": trace}).fetchall()
    return Result(one, found["full"][1], errors, active, modelled)


def page(results: list[Result]) -> str:
    """The tables of the results."""
    devices = sorted({str(r.recorded.facts.get("device_name")) for r in results})
    lines = [ABOUT, f"Recorded on: {', '.join(devices)}.", "", *summary(results)]
    lines += ["", "## Recording by recording", "", *by_recording(results)]
    return "\n".join(lines) + "\n"


def summary(results: list[Result]) -> Iterator[str]:
    """All recordings by what predicts them."""
    columns = {name: [r.errors.get(name) for r in results] for name in WAYS}
    columns["GPU active"] = [r.active for r in results]
    yield from table(
        ["prediction", "recordings", "GMAE, %", "MAPE, %", "median, %"],
        (
            [name, str(len(errors)), *scored(errors)]
            for name, found in columns.items()
            if (errors := [error for error in found if error is not None])
        ),
    )


def scores(errors: list[float]) -> tuple[float, float, float]:
    """Geometric mean and mean of the errors without signs; median with theirs.

    >>> scores([0.01, -0.04])
    (0.02, 0.025, -0.015)
    """
    sizes = [max(abs(error), LEAST_ERROR) for error in errors]
    geometric = exp(fmean(map(log, sizes)))
    return round(geometric, 6), round(fmean(map(abs, errors)), 6), median(errors)


def scored(errors: list[float]) -> Iterator[str]:
    """The same for a person: only the last has a sign."""
    *sizes, middle = scores(errors)
    yield from (f"{100 * size:.2f}" for size in sizes)
    yield percent(middle)


def by_recording(results: list[Result]) -> Iterator[str]:
    """Each recording: its times, and the error of each prediction."""
    head = ["model", "batch", "unprofiled, ms", "profiled, ms"]
    shares = ["GPU active, %", "GPU time with a model, %"]
    yield from table(
        [*head, *(f"{name}, %" for name in WAYS), *shares],
        (
            [
                r.recorded.name,
                str(r.recorded.facts.get("batch_size", "")),
                f"{r.recorded.step_ns / 1e6:.3f}",
                f"{r.profiled_ns / 1e6:.3f}",
                *(percent(r.errors.get(name)) for name in WAYS),
                percent(r.active),
                percent(r.modelled),
            ]
            for r in results
        ),
    )


def percent(share: float | None) -> str:
    """A share for a person; nothing where there is none."""
    return "" if share is None else f"{100 * share:+.2f}"


def main(words: list[str] | None = None) -> int:
    """Write the page where it is wanted, or to the terminal; 2: nothing to evaluate."""
    given = parser(__doc__)
    given.add_argument("folder", type=Path, help="with what record.py left")
    given.add_argument("--models", type=Path, help="trained kernel models")
    asked = given.parse_args(words)
    found = recordings(asked.folder)
    if not found:
        tell(f"evaluate: error: {asked.folder}: no recording; record.py makes them")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        text = page(list(evaluate(found, Path(folder), asked.models)))
    publish(text, asked.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
