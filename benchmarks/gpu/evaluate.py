r"""Say how well recordings are predicted: the paper's tables, of the recorded machine.

    python benchmarks/gpu/evaluate.py recorded/ --models models/ \
        --estimated estimated/ --write docs/evaluation.md

Reads what `record.py` left: traces, and beside each the time of steps that nobody
profiled, which all predictions are held against. Runs anywhere; `--models` are what
`tracedb kernels train` made of the microbenchmarks of the same machine, `--estimated`
what `beforehand.py` said before.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import estimate_errors
import kernel_errors
import pair_errors
from measure import tell
from pages import goal, parser, publish, table
from recorded import Recorded, percent, recordings, scored, scores

import tracedb
from tracedb import overhead_library
from tracedb.whatif.scenario import UNPROFILED
from tracedb.whatif.simulation import simulated

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
"""Column titles of the tables, and their methods."""

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
    sum(coalesce(uncalibrated_ns, end_ns - start_ns))
    / nullif(sum(end_ns - start_ns), 0) - 1,
    sum(CASE WHEN model IS NOT NULL THEN end_ns - start_ns END)
    / nullif(sum(end_ns - start_ns), 0)
FROM (
    SELECT work.start_ns, work.end_ns, time.predicted_ns, uncalibrated_ns, model
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
- GPU active: the time of all GPU work, as its models have it, beside the recorded one;
  `taught` by the recording's other steps, as `full` has it, or from `shapes` alone. Of
  work without a model it is the recorded time.
"""
PER_BATCH, ACTIVE_GOAL, SHARED_MORE = 5.0, 3.0, 1.0
"""[%] Goals; shared overheads may be this many points worse than own ones."""


@dataclass(frozen=True)
class Result:
    """Predictions for a recording, by column."""

    recorded: Recorded
    profiled_ns: float | None
    errors: dict[str, float] = field(default_factory=dict)
    active: float | None = None
    active_of_shapes: float | None = None
    modelled: float | None = None
    kernels: list[kernel_errors.Family] = field(default_factory=list)


def evaluate(
    recorded: list[Recorded], folder: Path, models: Path | None
) -> Iterator[Result]:
    """Predict all recordings, with one database per model in a folder."""
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
    """Predict the recordings in a database, in order."""
    methods = [method for method in WAYS.values() if library or method != "library"]
    with simulated(database.connection, methods, [UNPROFILED], library) as connection:
        query = "SELECT trace_id FROM staging.trace WHERE path = ?"
        for one in own:
            ((trace,),) = connection.execute(query, [str(one.kineto)]).fetchall()
            yield result(connection, one, trace)


def result(connection: duckdb.DuckDBPyConnection, one: Recorded, trace: int) -> Result:
    """Results of the methods for one recording."""
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
    ((taught, of_shapes, modelled),) = connection.execute(
        ACTIVE, {"trace": trace}
    ).fetchall()
    profiled_ns = next((profiled for _, profiled in found.values()), None)
    kernels = kernel_errors.of_trace(connection, trace)
    return Result(one, profiled_ns, errors, taught, of_shapes, modelled, kernels)


def page(
    results: list[Result],
    pairs: list[pair_errors.Pair],
    estimates: list[estimate_errors.Estimated],
) -> str:
    """The tables of the results."""
    families = kernel_errors.pooled(family for r in results for family in r.kernels)
    goals = [
        *kernel_errors.goals(families),
        *own_goals(results),
        *pair_errors.goals(pairs),
        *estimate_errors.goals(estimates),
    ]
    lines = [ABOUT, *machines(results), ""]
    lines += [*table(["goal", "at most, %", "measured, %", "met"], goals), ""]
    lines += ["## Steps", "", *summary(results), ""]
    lines += ["### Recording by recording", "", *by_recording(results)]
    lines += kernel_errors.section(families)
    lines += pair_errors.section(pairs)
    lines += estimate_errors.section(estimates)
    return "\n".join(lines) + "\n"


def machines(results: list[Result]) -> Iterator[str]:
    """The recorded machines and software."""
    told = {
        f"{facts.get('device_name')}, PyTorch {facts.get('torch')}, CUDA "
        f"{facts.get('cuda')}, driver {(facts.get('gpu') or {}).get('driver_version')}"
        for r in results
        if (facts := r.recorded.facts)
    }
    yield f"Recorded on: {'; '.join(sorted(told))}."


def columns_of(results: list[Result]) -> dict[str, list[float]]:
    """Errors of all recordings, by method."""
    columns = {name: [r.errors.get(name) for r in results] for name in WAYS}
    columns["GPU active, taught"] = [r.active for r in results]
    columns["GPU active, shapes"] = [r.active_of_shapes for r in results]
    return {
        name: [error for error in found if error is not None]
        for name, found in columns.items()
    }


def summary(results: list[Result]) -> Iterator[str]:
    """All recordings, by method."""
    yield from table(
        ["prediction", "recordings", "GMAE, %", "MAPE, %", "median, %"],
        (
            [name, str(len(errors)), *scored(errors)]
            for name, errors in columns_of(results).items()
            if errors
        ),
    )


def own_goals(results: list[Result]) -> Iterator[list[str]]:
    """Goals for steps: geometric means of errors."""
    found = columns_of(results)
    bounds = dict.fromkeys(("own", "full"), PER_BATCH)
    bounds |= {"GPU active, taught": ACTIVE_GOAL, "GPU active, shapes": ACTIVE_GOAL}
    for name, bound in bounds.items():
        if found[name]:
            yield goal(f"step: {name}, GMAE", 100 * scores(found[name])[0], bound)
    both = [r.errors for r in results if {"own", "shared"} <= r.errors.keys()]
    if both:
        own, shared = (
            100 * scores([errors[name] for errors in both])[0]
            for name in ("own", "shared")
        )
        yield goal("step: shared, GMAE above own", shared - own, SHARED_MORE)


def by_recording(results: list[Result]) -> Iterator[str]:
    """Each recording: times, and the error of each prediction."""
    head = ["model", "batch", "unprofiled, ms", "profiled, ms"]
    shares = ["GPU active, taught, %", "shapes, %", "GPU time with a model, %"]
    yield from table(
        [*head, *(f"{name}, %" for name in WAYS), *shares],
        (
            [
                r.recorded.name,
                str(r.recorded.facts.get("batch_size", "")),
                f"{r.recorded.step_ns / 1e6:.3f}",
                "" if r.profiled_ns is None else f"{r.profiled_ns / 1e6:.3f}",
                *(percent(r.errors.get(name)) for name in WAYS),
                percent(r.active),
                percent(r.active_of_shapes),
                percent(r.modelled),
            ]
            for r in results
        ),
    )


def main(words: list[str] | None = None) -> int:
    """Write the page, or print it; 2: nothing to evaluate."""
    given = parser(__doc__)
    given.add_argument("folder", type=Path, help="with what record.py left")
    given.add_argument("--models", type=Path, help="trained kernel models")
    given.add_argument("--estimated", type=Path, help="with what beforehand.py left")
    asked = given.parse_args(words)
    found = recordings(asked.folder)
    if not found:
        tell(f"evaluate: error: {asked.folder}: no recording; record.py makes them")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        results = list(evaluate(found, Path(folder), asked.models))
    named = {one.name: one for one in found}
    pairs = list(pair_errors.of_folder(asked.folder, named, asked.models))
    estimates = list(estimate_errors.of_folder(asked.estimated, named))
    publish(page(results, pairs, estimates), asked.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
