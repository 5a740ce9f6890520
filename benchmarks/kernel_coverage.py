"""Say how much GPU time of real traces is predicted, and how well: a page.

    python benchmarks/kernel_coverage.py --write docs/kernel-coverage.md
    python benchmarks/kernel_coverage.py --models models/

Ingests each trace of the corpus on its own, with its execution graph where there is
one; `--models` names a file or folder of trained kernel models to predict with, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from explained import traces
from measure import CORPUS, tell
from pages import parser, publish, table

import tracedb
from tracedb import kernels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Row = dict[str, Any]

LEAST_PROBLEMS = 20
"""Of a family in a trace, for its errors to count."""
GOAL = 95
"""Percent of the GPU time of a training trace."""

# What is recorded of the launch decides whether anything can be said of a kernel.
COVERAGE = """
SELECT
    coalesce(any_value(gpu), 'not named') AS gpu,
    sum(time_ns) AS time_ns,
    sum(time_ns) FILTER (basis = 'model') AS model,
    sum(time_ns) FILTER (basis = 'roofline') AS roofline,
    sum(time_ns) FILTER (basis IS NULL AND call_id IS NULL) AS no_launch,
    sum(time_ns) FILTER (basis IS NULL AND call_id IS NOT NULL AND op_id IS NULL)
    AS no_op,
    sum(time_ns) FILTER (basis IS NULL AND op_id IS NOT NULL AND NOT has_shape)
    AS no_shape,
    sum(time_ns) FILTER (basis IS NULL AND op_id IS NOT NULL AND has_shape) AS unknown,
    (SELECT bool_or(name LIKE '%ackward%') FROM staging.op) AS is_training
FROM (
    SELECT
        trace_id,
        call_id,
        work.op_id,
        basis,
        work.end_ns - work.start_ns AS time_ns,
        shape.op_id IS NOT NULL AS has_shape
    FROM staging.gpu_op AS work
    LEFT JOIN prediction.kernel_time USING (gpu_op_id, trace_id)
    LEFT JOIN prediction.op_shape AS shape ON work.op_id = shape.op_id
    WHERE kind <> 'other'
)
LEFT JOIN staging.trace_gpu USING (trace_id)
HAVING sum(time_ns) > 0
"""
CAUSES = ("no_launch", "no_op", "no_shape", "unknown")

ABOUT = """# How much GPU time is predicted, and how well

Written by `python benchmarks/kernel_coverage.py` over a corpus of real traces.

Shares are of the summed time of GPU work. Work is predicted by a trained model where
one was applied and knows it, else by the roofline. It is not where the trace does not
tell what it was: its launch lies before the recording (or the whole graph was launched
from there), no op is around the launch (replays of graphs, servers), or the op's shapes
were not recorded; what is left are ops that no rule knows.
"""
ERRORS = """## Predicted against measured

Kernels of an op are one problem. Median over the traces in which a family has at
least {least} problems, without collectives: geometric mean / mean of the errors without
their signs, %, and predicted over measured time less 1. The roofline has learnt nothing
from these traces.
"""
CALIBRATED = """## Calibrated on 20 kernels

`tracedb kernels calibrate`: two constants from 20 kernels of the trace. Errors are of
the other kernels, each kernel (name, family, predicted time) counted once: geometric
mean / mean of the errors, %. Constants that do not help are not used.
"""
SAID = (
    "Of the {count} training traces with shapes {covered:.1f} % of the time is "
    "predicted in the median, {least:.1f} % in the least of them ({name}); {above} "
    "have {goal} % or more, the goal."
)


@dataclass
class Trace:
    """What is known of one trace: coverage, errors by family, constants."""

    name: str
    coverage: Row
    errors: list[Row] = field(default_factory=list)
    constants: list[Row] = field(default_factory=list)

    def share(self, *columns: str) -> float:
        """Part of the GPU time, in percent."""
        parts = sum(float(self.coverage[column] or 0) for column in columns)
        return 100 * parts / float(self.coverage["time_ns"])

    @property
    def is_of_training(self) -> bool:
        """Whether it has backward passes, and shapes at least for half of the time."""
        reported = self.share("model", "roofline")
        return bool(self.coverage["is_training"]) and self.share("no_shape") < reported


def files(path: Path) -> list[Path]:
    """A trace, and the execution graph of the same rank, if there is one."""
    if "dlrm8" in path.parts:
        rank = path.name.removeprefix("worker").partition(".")[0]
        return [path, CORPUS / f"param/dlrm8/et/dlrm_eg_{rank}.json.gz"]
    graph = path.with_name(path.name.replace("_kineto", "_et"))
    return [path, graph] if graph != path and graph.exists() else [path]


def measured(path: Path, models: kernels.Models | None) -> Iterator[Trace]:
    """A trace as it is predicted; none where it has no GPU work."""
    name = str(path.relative_to(CORPUS)).removesuffix(".gz").removesuffix(".json")
    tell(name)
    with tracedb.open() as database:
        database.ingest(files(path))
        if database.sql(COVERAGE).is_empty():
            return
        errors = [_errors(database, "roofline")]
        has_shapes = database.sql("FROM prediction.kernel_problem LIMIT 1").height
        if models is not None and has_shapes:
            database.apply_models(models)
            errors.append(_errors(database, "models"))
        [coverage] = database.sql(COVERAGE).iter_rows(named=True)
        constants = _constants(database)
    yield Trace(name, coverage, [row for rows in errors for row in rows], constants)


def _errors(database: tracedb.Database, way: str) -> list[Row]:
    """Errors by family; with models, of what models predict."""
    rows = database.ask("kernel_error").iter_rows(named=True)
    is_model = way == "models"
    return [
        row | {"way": way} for row in rows if (row["model"] != "roofline") == is_model
    ]


def _constants(database: tracedb.Database) -> list[Row]:
    try:
        return list(database.calibrate().iter_rows(named=True))
    except tracedb.QueryError:
        return []


def page(found: Sequence[Trace]) -> str:
    """The whole page."""
    parts = [ABOUT, said(found), "", *coverage_table(found), "", *error_tables(found)]
    parts += ["", CALIBRATED, *constant_table(found)]
    return "\n".join(parts) + "\n"


def said(found: Sequence[Trace]) -> str:
    """The coverage of training traces in a sentence."""
    shares = {t.name: t.share("model", "roofline") for t in found if t.is_of_training}
    least = min(shares, key=lambda name: shares[name])
    return SAID.format(
        count=len(shares),
        covered=median(shares.values()),
        least=shares[least],
        name=least,
        goal=GOAL,
        above=sum(share >= GOAL for share in shares.values()),
    )


def coverage_table(found: Iterable[Trace]) -> list[str]:
    """How the GPU time of each trace divides."""
    head = ["trace", "GPU", "training", "by model, %", "by roofline, %"]
    head += ["launched before, %", "no op, %", "no shapes, %", "unknown op, %"]
    cells = [
        [
            trace.name,
            trace.coverage["gpu"],
            "yes" if trace.is_of_training else "",
            *(f"{trace.share(part):.1f}" for part in ("model", "roofline", *CAUSES)),
        ]
        for trace in found
    ]
    return table(head, cells, left=3)


def error_tables(found: Sequence[Trace]) -> Iterator[str]:
    """Errors by family, of the roofline and of models where they were applied."""
    yield ERRORS.format(least=LEAST_PROBLEMS)
    ways: dict[tuple[str, str], list[Row]] = {}
    for trace in found:
        for row in trace.errors:
            if row["problem_count"] >= LEAST_PROBLEMS:
                ways.setdefault((row["family"], row["way"]), []).append(row)
    head = ["family", "by", "traces", "problems", "errors, %", "bias, %", "in band, %"]
    cells = [[*key, *_medians(ways[key])] for key in sorted(ways)]
    yield from table(head, cells, left=2)


def _medians(rows: list[Row]) -> list[str]:
    def percent(column: str) -> str:
        return f"{100 * median(row[column] for row in rows):.1f}"

    errors = f"{percent('gmae_share')} / {percent('mape_share')}"
    problems = sum(row["problem_count"] for row in rows)
    shares = (percent("bias_share"), percent("inside_share"))
    return [str(len(rows)), f"{problems:,}", errors, *shares]


def constant_table(found: Iterable[Trace]) -> list[str]:
    """What calibration leads to, trace by trace."""
    head = ["trace", "of", "scale", "offset, us", "other kernels", "before", "after"]
    head += ["used"]
    cells = [
        [
            trace.name,
            row["basis"],
            f"{row['scale']:.2f}",
            f"{row['offset_ns'] / 1000:.2f}",
            str(row["other_count"]),
            *(_pair(row, when) for when in ("before", "after")),
            "yes" if row["is_applied"] else "no",
        ]
        for trace in found
        for row in trace.constants
    ]
    return table(head, cells, left=2)


def _pair(row: Row, when: str) -> str:
    geometric, mean = (100 * row[f"{kind}_{when}_share"] for kind in ("gmae", "mape"))
    return f"{geometric:.1f} / {mean:.1f}"


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__)
    asked.add_argument("--models", type=Path, help="trained models, to predict with")
    chosen = asked.parse_args()
    if not CORPUS.exists():
        asked.exit(1, "../shared/corpus is absent: there is nothing to measure\n")
    models = kernels.load(chosen.models) if chosen.models else None
    found = [t for path in traces() for t in measured(path, models)]
    publish(page(found), chosen.write)


if __name__ == "__main__":
    main()
