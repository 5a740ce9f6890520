"""Say how much GPU time of real traces is predicted, and how well: a page.

    python benchmarks/kernel_coverage.py --write docs/kernel-coverage.md

Takes each trace of the corpus on its own, with its execution graph where there is one,
and computes of it what kernel times follow from, shipped models as at a user's ingest.
Databases up to the layer staging are kept between runs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
from explained import traces
from measure import CORPUS, cache, ingest_until, tell
from pages import parser, publish, table

import tracedb
from tracedb import calibration, catalog, estimates
from tracedb.attachment import CONFIG
from tracedb.duck import registered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Row = dict[str, Any]

LEAST_PROBLEMS = 20
"""Problems that a family in a trace needs for its errors to count."""
GOAL = 95
"""Percent of a training trace's GPU time."""

# Whether a kernel can be predicted depends on what was recorded at its launch.
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

Shares are of the summed time of GPU work. A model that ships with tracedb predicts the
work it covers; the roofline predicts the rest. Work is not predicted if the trace does
not show what it was: it was launched before the recording (alone or as part of a whole
graph), no op encloses the launch (graph replays, servers), or the op's shapes were not
recorded. What remains are ops without a rule.
"""
TAUGHT = """## Calibration by the trace

Predicted GPU time of each trace, without collectives: predicted divided by measured,
minus 1, and the geometric mean / mean of the absolute errors of its problems (the
kernels of an op, a copy, a memset), all in %. *Alone*: from shapes, without
calibration. *Taught*: as in `full`; each problem is calibrated on the other steps of
the trace or, in a trace with one step, on its other problems, never on its own time.
The remaining columns show what calibration is worth elsewhere: *half*, on the half of
the problems that was launched before or after; *new shapes*, only on problems of other
shapes; *other traces*, only on the other traces of the corpus with the same GPU.
*Recurring* is the share of problems whose shape occurs elsewhere in the trace. Traces
with at least {least} problems. *Alone* is no clean hold-out: the share of PCIe that
copies from pinned memory reach, the share of the cache and the floors of some families
come from hosts and traces that are in this table (`prediction.kernel_efficiency`).
"""
WORST = """The largest errors, as a share of the trace's GPU time: alone, and taught.
Predictions are by the roofline, or by models of the op on this GPU."""
ERRORS = """## By family

Median over the traces in which a family has at least {least} problems: geometric mean /
mean of the errors, and predicted divided by measured time, minus 1, alone and taught,
and the share of problems whose measured time lies in their band.
"""
SAID = (
    "In the median of the {count} training traces with shapes, {covered:.1f} % of the "
    "time is predicted; the minimum is {least:.1f} % ({name}). {above} traces reach "
    "the goal of {goal} %."
)


WAYS = {
    "taught": "left_out_id",
    "half": "problem_id > median(problem_id) OVER (PARTITION BY trace_id)",
    "new shapes": "hash(shape_key)",
    "other traces": "trace_id",
}
"""What a problem may not learn from, by the name of the way."""
ALONE_BY = "CASE WHEN uncalibrated_ns = roofline_ns THEN '' ELSE ' (models)' END"
TAUGHT_BY = "CASE basis WHEN 'model' THEN ' (models)' ELSE '' END"
"""The basis of a family's predictions."""
# The trace as a whole, and its families by error.
SCORE = """
WITH
problem AS (
    SELECT
        kernel_time.family || {served} AS family,
        problem_id,
        sum(end_ns - start_ns) AS measured,
        sum({column}) AS predicted,
        bool_and(learnt_from = 'shape') AS is_recurring
    FROM staging.gpu_op
    INNER JOIN prediction.kernel_time USING (gpu_op_id)
    INNER JOIN prediction.kernel_roofline USING (gpu_op_id)
    WHERE kernel_time.family <> 'collective'
    GROUP BY ALL
    HAVING measured > 0
)

SELECT
    count(*) AS problems,
    sum(measured) / 1e6 AS time_ms,
    sum(predicted) / sum(measured) - 1 AS bias,
    prediction.gmae_share(predicted / measured - 1) AS gmae,
    avg(abs(predicted / measured - 1)) AS mape,
    avg(is_recurring::BIGINT) AS recurring,
    (
        SELECT max_by(family, abs(off), 3)
        FROM (SELECT family, sum(predicted - measured) AS off FROM problem GROUP BY ALL)
    ) AS worst,
    (
        SELECT max_by(off, abs(off), 3)
        FROM (
            SELECT sum(predicted - measured) / sum(sum(measured)) OVER () AS off
            FROM problem GROUP BY family
        )
    ) AS worst_share
FROM problem
"""


@dataclass
class Trace:
    """Results for one trace: coverage, errors by family, scores by way."""

    name: str
    coverage: Row
    errors: list[Row] = field(default_factory=list)
    scores: dict[str, Row] = field(default_factory=dict)

    def share(self, *columns: str) -> float:
        """Percent of the GPU time."""
        parts = sum(float(self.coverage[column] or 0) for column in columns)
        return 100 * parts / float(self.coverage["time_ns"])

    @property
    def is_of_training(self) -> bool:
        """Whether it has backward passes, and shapes for at least half of the time."""
        reported = self.share("model", "roofline")
        return bool(self.coverage["is_training"]) and self.share("no_shape") < reported


def files(path: Path) -> list[Path]:
    """A trace, and the execution graph of its rank if there is one."""
    if "dlrm8" in path.parts:
        rank = path.name.removeprefix("worker").partition(".")[0]
        return [path, CORPUS / f"param/dlrm8/et/dlrm_eg_{rank}.json.gz"]
    graph = path.with_name(path.name.replace("_kineto", "_et"))
    return [path, graph] if graph != path and graph.exists() else [path]


def staged(path: Path) -> Path:
    """A trace's database up to staging, created if it is not there."""
    kept = [r.statement for r in catalog.declared() if r.layer in ("raw", "staging")]
    digest = hashlib.sha256("".join(kept).encode() + path.read_bytes())
    for source in sorted((Path(tracedb.__file__).parent / "ingest").rglob("*.py")):
        digest.update(source.read_bytes())
    database = (
        cache() / f"staged-{path.name.partition('.')[0]}-{digest.hexdigest()[:12]}"
    )
    if not database.exists():
        beside = database.with_suffix(".tmp")
        beside.unlink(missing_ok=True)
        with tracedb.open(beside) as made:
            ingest_until("staging", made.connection, *files(path))
        beside.rename(database)
    return database


class Predicted:
    """A trace with predicted GPU work and nothing computed beyond that."""

    def __init__(self, path: Path) -> None:
        """Compute the inputs of kernel times."""
        self.name = str(path.relative_to(CORPUS)).removesuffix(".gz")
        self.name = self.name.removesuffix(".json")
        tell(self.name)
        self.connection = duckdb.connect(config={**CONFIG})
        self.connection.execute(f"ATTACH '{staged(path)}' AS kept (READ_ONLY)")
        needed = {"question.kernel_error", "staging.trace_gpu"}
        needed.add("prediction.kernel_problem")
        for one in reversed(catalog.declared()):
            if one.full_name in needed:
                needed |= one.reads
        for one in catalog.declared():
            if one.full_name in needed:
                self._create(one)
        # Recursive relations read what is being computed.
        self.connection.execute(
            "SET VARIABLE computing = (SELECT list(trace_id) FROM raw.trace)"
        )
        self._compute(*(name for name in needed if name.startswith("prediction.")))
        found = self.connection.execute("SELECT trace_id FROM raw.trace").fetchall()
        estimates.apply_shipped(self.connection, [row[0] for row in found])
        self._compute("prediction.kernel_factor")

    def _create(self, one: catalog.Relation) -> None:
        self.connection.execute(f"CREATE SCHEMA IF NOT EXISTS {one.layer}")
        if one.kind == "TABLE" and one.layer in ("raw", "staging"):
            query = f"CREATE VIEW {one.full_name} AS FROM kept.{one.full_name}"
        else:
            empty = "\nLIMIT 0" if one.is_computed_on_ingest else ""
            query = one.statement.rstrip().rstrip(";") + empty
        self.connection.execute(query)

    def _compute(self, *names: str) -> None:
        for one in catalog.relations():
            if one.full_name in names and one.is_computed_on_ingest:
                self.connection.execute(f"DELETE FROM {one.full_name}")
                self.connection.execute(f"INSERT INTO {one.full_name} {one.query}")

    def lessons(self) -> pl.DataFrame:
        """What other traces can learn from this one."""
        taught: pl.DataFrame = self.connection.sql(calibration.LESSONS).pl()
        return taught

    def score(
        self, way: str, column: str = "predicted_ns", served: str = TAUGHT_BY
    ) -> Row:
        """The score of the trace in a way (`WAYS`)."""
        sample = catalog.find("prediction.kernel_sample")
        self.connection.execute(
            f"CREATE OR REPLACE VIEW {sample.full_name} AS "
            f"SELECT * REPLACE ({WAYS[way]} AS left_out_id) "
            f"FROM ({sample.query}\n) AS sample ({', '.join(sample.columns)})"
        )
        self._compute("prediction.kernel_factor")
        query = SCORE.format(column=column, served=served)
        [row] = rows_of(self.connection, query)
        return row

    def trace(self, lessons: pl.DataFrame) -> Iterator[Trace]:
        """Results for a trace; None without GPU work."""
        for coverage in rows_of(self.connection, COVERAGE):
            found = Trace(self.name, coverage)
            if found.share("model", "roofline"):
                alone = self.score("taught", "uncalibrated_ns", ALONE_BY)
                found.scores["alone"] = alone
                found.scores |= {way: self.score(way) for way in list(WAYS)[1:-1]}
                found.scores["taught"] = self.score("taught")
                found.errors = rows_of(self.connection, "FROM question.kernel_error")
                with registered(self.connection, "lessons", lessons.to_arrow()):
                    self.connection.execute(
                        "INSERT INTO reference.kernel_lesson BY NAME FROM lessons"
                    )
                found.scores["other traces"] = self.score("other traces")
            yield found


def rows_of(connection: duckdb.DuckDBPyConnection, query: str) -> list[Row]:
    """The rows of a query as dictionaries."""
    return list(connection.sql(query).pl().iter_rows(named=True))


def page(found: Sequence[Trace]) -> str:
    """The whole page."""
    parts = [ABOUT, said(found), "", *coverage_table(found), "", *taught_tables(found)]
    return "\n".join([*parts, "", *error_tables(found)]) + "\n"


def said(found: Sequence[Trace]) -> str:
    """Coverage of training traces, in a sentence."""
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
    """Coverage of each trace's GPU time."""
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


def taught_tables(found: Sequence[Trace]) -> Iterator[str]:
    """Errors of each trace in each way, and their largest part."""
    yield TAUGHT.format(least=LEAST_PROBLEMS)
    scored = [t for t in found if t.scores]
    scored = [t for t in scored if t.scores["alone"]["problems"] >= LEAST_PROBLEMS]
    ways = ["alone", *WAYS]
    head = ["trace", "time, ms", "problems", "recurring, %", *ways]
    cells = [
        [
            trace.name,
            f"{trace.scores['taught']['time_ms']:,.1f}",
            f"{trace.scores['taught']['problems']:,}",
            f"{100 * trace.scores['taught']['recurring']:.0f}",
            *(_score(trace.scores[way]) for way in ways),
        ]
        for trace in scored
    ]
    for name, of in (("median", median), ("worst", max)):
        summed = [
            {key: of(abs(t.scores[way][key]) for t in scored) for key in SCORES}
            for way in ways
        ]
        cells.append([f"**{name}, absolute**", "", "", "", *map(_score, summed)])
    yield from table(head, cells)
    yield from ("", WORST, "")
    yield from table(
        ["trace", "alone", "taught"],
        ([t.name, *(_worst(t.scores[w]) for w in ("alone", "taught"))] for t in scored),
        left=3,
    )
    yield ""


SCORES = ("bias", "gmae", "mape")


def _score(row: Row) -> str:
    bias, gmae, mape = (100 * row[key] for key in SCORES)
    return f"{bias:.1f}; {gmae:.1f} / {mape:.1f}"


def _worst(row: Row) -> str:
    pairs = zip(row["worst"], row["worst_share"], strict=True)
    return ", ".join(f"{family} {100 * share:+.0f} %" for family, share in pairs)


def error_tables(found: Sequence[Trace]) -> Iterator[str]:
    """Errors by family, of the roofline, and of models where they apply."""
    yield ERRORS.format(least=LEAST_PROBLEMS)
    families: dict[tuple[str, str], list[Row]] = {}
    for trace in found:
        for row in trace.errors:
            if row["problem_count"] >= LEAST_PROBLEMS:
                by = "roofline" if row["model"] == "roofline" else "models"
                families.setdefault((row["family"], by), []).append(row)
    head = ["family", "by", "traces", "problems", "alone, %", "bias, %"]
    head += ["taught, %", "bias, %", "in band, %"]
    cells = [[*key, *_medians(families[key])] for key in sorted(families)]
    yield from table(head, cells, left=2)


def _medians(rows: list[Row]) -> list[str]:
    def percent(column: str) -> str:
        return f"{100 * median(row[column] for row in rows):.1f}"

    problems = sum(row["problem_count"] for row in rows)
    taught = f"{percent('gmae_share')} / {percent('mape_share')}"
    return [
        *(str(len(rows)), f"{problems:,}"),
        *(percent(f"uncalibrated_{kind}_share") for kind in ("gmae", "bias")),
        *(taught, percent("bias_share"), percent("inside_share")),
    ]


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__)
    chosen = asked.parse_args()
    if not CORPUS.exists():
        asked.exit(1, "../shared/corpus is absent: there is nothing to measure\n")
    predicted = [Predicted(path) for path in traces()]
    lessons = pl.concat([one.lessons() for one in predicted])
    found = [trace for one in predicted for trace in one.trace(lessons)]
    publish(page(found), chosen.write)


if __name__ == "__main__":
    main()
