"""Measure how well steps of real traces are predicted: `docs/prediction.md`.

    python benchmarks/accuracy.py --write docs/prediction.md

Ingests all traces of the corpus with steps into one database, and scores all methods.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explained import traces
from measure import CORPUS, tell
from pages import parser, publish, table

import tracedb
from tracedb import Edit
from tracedb.whatif.simulation import simulated

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb
    import polars as pl

RANKS = "param/dlrm8/kineto"
METHODS = tuple(method for method in tracedb.METHODS if method != "library")
ENOUGH_STEPS = 3
SPREAD = 0.05
"""Steps that differ by more than this have to be predicted better than by guessing."""

SCORES = """
SELECT
    method, has_others, step_count, gmae_share, mape_share, p90_share, worst_share,
    bias_share, as_measured_share, guess, guess_gmae_share, guess_mape_share
FROM question.prediction_score
WHERE grouping = 'all'
ORDER BY list_position(['naive', $methods], method), has_others DESC
"""
KEPT = """
SELECT count(DISTINCT step_id) FILTER (kept_ns > 0), count(DISTINCT step_id)
FROM critical_path.step_time
WHERE scenario = 'baseline'
"""
STEPS = """
SELECT
    path,
    score.step_count AS steps,
    spread,
    naive.gmae_share AS naive_gmae,
    naive.mape_share AS naive_mape,
    score.guess,
    score.guess_mape_share AS guess_mape,
    score.gmae_share AS gmae,
    score.mape_share AS mape
FROM question.prediction_score AS score
INNER JOIN staging.trace USING (trace_id)
INNER JOIN (
    SELECT trace_id, max(measured_ns) / min(measured_ns) - 1 AS spread
    FROM question.prediction_error
    GROUP BY trace_id
) USING (trace_id)
INNER JOIN (
    FROM question.prediction_score WHERE method = 'naive' AND grouping = 'trace'
) AS naive USING (trace_id)
WHERE score.method = 'other_steps' AND score.grouping = 'trace'
ORDER BY path
"""
BANDS = """
SELECT
    method, count(*) AS steps, avg(is_inside::INTEGER) AS inside,
    median(high_ns / low_ns) - 1 AS width
FROM question.prediction_band
WHERE
    method <> 'other_steps'
    OR trace_id IN (
        SELECT trace_id FROM staging.step GROUP BY trace_id HAVING count(*) >= $enough
    )
GROUP BY method
ORDER BY list_position([$methods], method)
"""
OF_RANKS = """
SELECT
    rank,
    measured_ns,
    (
        SELECT guessed.error_share FROM question.prediction_guess AS guessed
        WHERE guess = 'other_ranks' AND guessed.step_id = error.step_id
    ) AS naive,
    (
        SELECT guessed.error_share FROM question.prediction_guess AS guessed
        WHERE guess = 'common_end' AND guessed.step_id = error.step_id
    ) AS common_end,
    predicted_ns,
    error_share,
    (
        SELECT sum(absent_waiting_ns) FROM graph.collective
        WHERE collective.trace_id = error.trace_id
    ) / measured_ns AS given
FROM question.prediction_error AS error
INNER JOIN staging.trace USING (trace_id)
WHERE method = 'other_ranks' AND trace_id IN $traces
ORDER BY rank
"""
# Ablations: name, method, scenario.
PARTS = (
    ("all of ours (`statistics`)", "statistics", "baseline"),
    ("no thread waits for GPU work", "statistics", "no host"),
    ("no thread waits for another thread", "statistics", "no thread"),
    ("no stream waits for another stream", "statistics", "no stream"),
    ("nothing waits", "statistics", "no waits"),
    ("alike in type and name alone (`by_name`)", "by_name", "baseline"),
    ("both of these", "by_name", "no waits"),
    ("`lin2022_as_profiled`", "lin2022_as_profiled", "baseline"),
    ("`lin2022`", "lin2022", "baseline"),
)
WITHOUT = [
    *(
        Edit(scenario=f"no {kind}", target="wait", type=kind)
        for kind in ("host", "thread", "stream")
    ),
    Edit(scenario="no waits", target="wait"),
]
PART = """
WITH
compared AS (
    SELECT step_id
    FROM critical_path.step_time
    WHERE
        scenario = 'baseline' AND measured_ns > 0
        AND (method = 'statistics' AND as_measured_share < 0.5 OR method = 'lin2022')
    GROUP BY step_id
    HAVING count(*) = 2
)

SELECT
    count(*) AS steps,
    exp(avg(ln(greatest(abs(error), 0.0001)))) AS gmae,
    avg(abs(error)) AS mape,
    quantile_cont(abs(error), 0.9) AS p90,
    avg(error) AS bias
FROM (
    SELECT predicted_ns / measured_ns - 1 AS error
    FROM critical_path.step_time
    SEMI JOIN compared USING (step_id)
    WHERE method = $method AND scenario = $scenario
)
"""
ACTIVE = """
SELECT
    active.method,
    count(*) AS steps,
    exp(avg(ln(greatest(abs(active.error_share), 0.0001)))) AS gmae,
    avg(abs(active.error_share)) AS mape,
    quantile_cont(abs(active.error_share), 0.9) AS p90,
    avg(active.error_share) AS bias,
    avg(measured_idle_share) AS measured_idle,
    avg(predicted_idle_share) AS predicted_idle
FROM question.gpu_active AS active
INNER JOIN critical_path.step_time AS time USING (scenario, method, step_id)
WHERE
    scenario = 'baseline' AND active.measured_ns > 0
    AND (active.method = 'replay' OR as_measured_share < 0.5)
GROUP BY active.method
ORDER BY list_position([$methods], active.method)
"""
BY_TRACE = """
SELECT path, method, step_count, gmae_share
FROM question.prediction_score
INNER JOIN staging.trace USING (trace_id)
WHERE grouping = 'trace'
"""

ABOUT = """# How well steps are predicted

Written by `python benchmarks/accuracy.py` over a corpus of real traces, each recorded
on another machine, all in one database.

An error is predicted divided by measured, minus 1. GMAE is the geometric mean of the
absolute errors, each at least 0.01 %; MAPE is their mean. The methods, as in
`prediction.method`:

- `replay` takes host and kernel times as measured, and computes every wait from its
  cause. Ranks of a run wait for each other in collectives, which then take the time of
  moving the data; waiting for ranks that were not recorded is as measured;
- `statistics` takes host times from similar spans in the run, including the predicted
  step; `full` also takes kernel times from shapes. If the run has no other step, they
  have seen everything they predict, and are scored separately: that shows how well sums
  of medians represent a step, not how well it was predicted;
- `other_steps`, `other_ranks` and `shared` learn host times only from the other steps
  of the trace, the other ranks of the run, and the other runs with the same GPU; kernel
  times, and in `shared` also data loading and gaps of 200 us and more, are as measured;
- `by_name` is like `statistics`, but spans count as similar if they have the same type
  and name;
- `lin2022` is the algorithm of Lin et al. 2022 with its constants, and
  `lin2022_as_profiled` the same without subtracting the profiler's overhead, because
  the traces' steps are profiled;
- `naive` is the median of the trace's other steps.

For methods that learn elsewhere, steps count if less than half of the host time had to
be taken as measured; for `other_steps` and `naive`, those of traces with three steps or
more.

Next to each method is the strongest simple guess that uses no more information and can
be made for all its steps (`question.prediction_guess`): the median of the trace's other
steps; the previous step; the mean of the other ranks; the time from the step's own
start to the mean of the other ranks' ends (`common_end`); the device's active time; the
same multiplied by the usual ratio in the other steps (`gpu_scaled`); or the longest
work of a host thread or the device, whichever is larger (`busiest`). A method that is
no better does not justify a graph.
"""
KEPT_ABOUT = """
Delay without a cause is left out of predictions. If it exceeds 5 % of a step it is kept
as measured, which reduces their errors: in {kept} of these {steps} steps."""
STEPS_ABOUT = """
## Steps from the other steps

Traces with three steps or more. Naive is the median of the others. If the steps differ
by more than 5 %, the prediction must beat the strongest guess:
"""
RANKS_ABOUT = """
## A rank from three others

DLRM training on eight V100s, four ranks of which were recorded: each rank's host times
are learned from the other three, and all four are simulated together. Naive is the mean
of the other ranks' steps. Common end is the guess of someone who knows only when each
rank starts: it lasts until the mean of the others' ends. Given is the time that
collectives wait for the four missing ranks, as a share of the step.
"""
ACTIVE_ABOUT = """
## GPU active time

How long each device is active in each step (`question.gpu_active`), and its mean idle
share of the step. In all methods but `full`, kernels last as measured: the remaining
errors come from how long kernels of collectives wait for the other ranks, and from work
that crosses the ends of steps.
"""
BANDS_ABOUT = """
## Bands

How often the measured time lies in the band of `question.prediction_band`, which should
hold four out of five, and the median width of the band (highest over lowest, minus 1).
"""
PARTS_ABOUT = """
## What each part buys

The same steps, predicted without one part of the graph at a time, and by the published
algorithm. Waits are what makes the host, or a stream, continue later than its own work
would.
"""
LIN2022_ABOUT = """
## Trace by trace

GMAE, %. The published algorithm has one host thread, so forward and backward ops of two
threads run one after the other; two streams, so work on others does not overlap; and no
blocking calls, so the host never spends time waiting, and work that outlives its step
counts in full.
"""


def percent(share: float | None) -> str:
    """A share as a percentage."""
    return "" if share is None else f"{100 * share:.2f}"


def ingested(database: tracedb.Database) -> None:
    """Ingest all traces with steps."""
    for path in traces():
        if has_steps(path):
            tell(str(path.relative_to(CORPUS)))
            database.ingest([path])


def has_steps(path: Path) -> bool:
    """Whether the profiler marked steps in a trace."""
    data = path.read_bytes()
    return b'"ProfilerStep#' in (
        gzip.decompress(data) if path.suffix == ".gz" else data
    )


def rows(
    connection: duckdb.DuckDBPyConnection, query: str, **values: object
) -> list[dict[str, Any]]:
    """The rows of a query by column."""
    frame: pl.DataFrame = connection.sql(query, params=values or None).pl()
    return frame.to_dicts()


def short(path: str) -> str:
    """A trace by its place in the corpus."""
    name = str(Path(path).relative_to(CORPUS))
    return name.removesuffix(".gz").removesuffix(".json").removesuffix(".pt.trace")


def scores(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """All steps by method."""
    head = ["method", "steps", "GMAE, %", "MAPE, %", "P90, %", "worst, %", "bias, %"]
    query = SCORES.replace("$methods", ", ".join(f"'{method}'" for method in METHODS))
    shares = ("gmae", "mape", "p90", "worst", "bias", "as_measured")
    guessed = ("guess_gmae", "guess_mape")
    cells = (
        [_scored(row), str(row["step_count"])]
        + [percent(row[f"{share}_share"]) for share in shares]
        + [f"`{row['guess']}`" if row["guess"] else ""]
        + [percent(row[f"{share}_share"]) for share in guessed]
        for row in rows(connection, query)
    )
    more = ["host time as measured, %", "strongest guess", "its GMAE, %", "its MAPE, %"]
    yield from table([*head, *more], cells)
    ((kept, steps),) = connection.execute(KEPT).fetchall()
    yield KEPT_ABOUT.format(kept=kept, steps=steps)


def _scored(row: dict[str, Any]) -> str:
    """The method of a row, and whether it had other steps to learn from."""
    alone = ", the only step of its run" if row["has_others"] is False else ""
    return f"`{row['method']}`{alone}"


def from_steps(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Each trace of several steps: baseline and learnt."""
    yield STEPS_ABOUT
    head = ["trace", "steps", "differ by, %", "naive GMAE, %", "naive MAPE, %"]
    head += ["strongest guess", "its MAPE, %"]
    yield from table(
        [*head, "`other_steps` GMAE, %", "`other_steps` MAPE, %", "beats that MAPE"],
        (
            [
                short(row["path"]),
                str(row["steps"]),
                percent(row["spread"]),
                percent(row["naive_gmae"]),
                percent(row["naive_mape"]),
                f"`{row['guess']}`",
                percent(row["guess_mape"]),
                percent(row["gmae"]),
                percent(row["mape"]),
                _verdict(row),
            ]
            for row in rows(connection, STEPS)
        ),
    )


def _verdict(row: dict[str, Any]) -> str:
    if row["spread"] <= SPREAD:
        return "need not"
    return "yes" if row["mape"] < row["guess_mape"] else "no"


def from_ranks(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Each rank of one job, from the others."""
    yield RANKS_ABOUT
    query = "SELECT trace_id FROM staging.trace WHERE contains(path, ?)"
    numbers = [row[0] for row in connection.execute(query, [RANKS]).fetchall()]
    head = ["rank", "measured, ms", "given, %", "naive, %", "common end, %"]
    head += ["predicted, ms", "error, %"]
    text = OF_RANKS.replace("$traces", f"({', '.join(map(str, numbers))})")
    yield from table(
        head,
        (
            [
                str(row["rank"]),
                f"{row['measured_ns'] / 1e6:.3f}",
                percent(row["given"]),
                f"{100 * row['naive']:+.2f}",
                f"{100 * row['common_end']:+.2f}",
                f"{row['predicted_ns'] / 1e6:.3f}",
                f"{100 * row['error_share']:+.2f}",
            ]
            for row in rows(connection, text)
        ),
    )


def bands(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Coverage and width of bands."""
    yield BANDS_ABOUT
    query = BANDS.replace("$methods", ", ".join(f"'{method}'" for method in METHODS))
    yield from table(
        ["method", "steps", "inside, %", "width, %"],
        (
            [
                f"`{row['method']}`",
                str(row["steps"]),
                percent(row["inside"]),
                percent(row["width"]),
            ]
            for row in rows(connection, query, enough=ENOUGH_STEPS)
        ),
    )


def active(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Active time of devices, by method."""
    yield ACTIVE_ABOUT
    query = ACTIVE.replace("$methods", ", ".join(f"'{method}'" for method in METHODS))
    shares = ("gmae", "mape", "p90", "bias", "measured_idle", "predicted_idle")
    head = ["method", "steps", "GMAE, %", "MAPE, %", "P90, %", "bias, %"]
    yield from table(
        [*head, "idle as measured, %", "idle as predicted, %"],
        (
            [f"`{row['method']}`", str(row["steps"])]
            + [percent(row[share]) for share in shares]
            for row in rows(connection, query)
        ),
    )


def parts(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Errors without each part."""
    yield PARTS_ABOUT
    yield from table(
        ["prediction", "steps", "GMAE, %", "MAPE, %", "P90, %", "bias, %"],
        (
            [
                name,
                str(row["steps"]),
                *(percent(row[share]) for share in ("gmae", "mape", "p90", "bias")),
            ]
            for name, method, scenario in PARTS
            for row in rows(connection, PART, method=method, scenario=scenario)
        ),
    )


def by_trace(connection: duckdb.DuckDBPyConnection) -> Iterator[str]:
    """Each trace by method."""
    yield LIN2022_ABOUT
    found: dict[str, dict[str, float]] = {}
    counts: dict[str, int] = {}
    for row in rows(connection, BY_TRACE):
        found.setdefault(short(row["path"]), {})[row["method"]] = row["gmae_share"]
        counts[short(row["path"])] = row["step_count"]
    methods = ("naive", *METHODS)
    yield from table(
        ["trace", "steps", *(f"`{method}`" for method in methods)],
        (
            [
                name,
                str(counts[name]),
                *(percent(scored.get(method)) for method in methods),
            ]
            for name, scored in sorted(found.items())
        ),
    )


def page() -> str:
    """The whole page."""
    with tracedb.open() as database:
        ingested(database)
        with simulated(database.connection, METHODS, WITHOUT) as connection:
            sections = (scores, from_steps, from_ranks, active, bands, parts, by_trace)
            lines = [line for section in sections for line in section(connection)]
    return "\n".join([ABOUT, *lines]) + "\n"


def main() -> None:
    """Write the page, or print it."""
    asked = parser(__doc__).parse_args()
    publish(page(), asked.write)


if __name__ == "__main__":
    main()
