"""Measure how much of real traces is explained: `docs/explained.md`.

    python benchmarks/explained.py --write docs/explained.md

Ingests each trace of the corpus on its own, and the ranks of one job together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from measure import CORPUS, tell
from pages import parser, publish, table

import tracedb

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDERS = (
    "hta",
    "kineto",
    "param/dlrm8/kineto",
    "param/linear",
    "tracelens",
    "torchbench",
)
RANKS = "param/dlrm8/kineto"

# Over a trace's steps, or over all of it if there are none.
SUMMARY = """
WITH
path AS (
    SELECT *, end_ns - start_ns AS path_ns
    FROM critical_path.path
    WHERE
        end_ns > start_ns
        AND CASE scope
            WHEN 'step' THEN true
            WHEN 'trace' THEN trace_id NOT IN (SELECT trace_id FROM staging.step)
        END
),

span AS (
    SELECT
        scope,
        path_id,
        sum(end_ns - start_ns) AS tiled_ns,
        sum(end_ns - start_ns) FILTER (kind = 'unexplained') AS unexplained_ns,
        sum(end_ns - start_ns) FILTER (kind = 'before_trace') AS before_ns
    FROM critical_path.interval
    GROUP BY scope, path_id
),

replay AS (
    SELECT * FROM critical_path.step_time WHERE method = 'replay' AND measured_ns > 0
),

on_path AS (
    SELECT max(slack_ns) AS most_slack_ns
    FROM critical_path.interval
    INNER JOIN path USING (scope, path_id)
    INNER JOIN critical_path.slack USING (node_id)
)

SELECT
    any_value(scope) AS scope,
    count(*) AS paths,
    max(abs(tiled_ns - path_ns)) AS untiled_ns,
    100 * avg(coalesce(span.unexplained_ns, 0) / path_ns) AS on_path,
    100 * avg(coalesce(before_ns, 0) / path_ns) AS before_trace,
    (SELECT 100 * avg(unexplained_ns / measured_ns) FROM replay) AS mean,
    (SELECT 100 * max(unexplained_ns / measured_ns) FROM replay) AS most,
    (SELECT 100 * max(abs(error_share)) FROM replay) AS error,
    (SELECT most_slack_ns FROM on_path) AS most_slack_ns
FROM path
LEFT JOIN span USING (scope, path_id)
HAVING count(*) > 0
"""
COLLECTIVES = """
SELECT
    number,
    collective.kind,
    any_value(element_count) AS elements,
    count(*) AS ranks,
    any_value(last_trace.rank) AS last_rank,
    string_agg(
        printf('%d: %.3f', own.rank, waiting_ns / 1e6), ', ' ORDER BY own.rank
    ) AS waits,
    max(absent_waiting_ns) / 1e6 AS absent_ms,
    max(moving_ns) / 1e6 AS moving_ms
FROM graph.collective AS collective
INNER JOIN staging.trace AS own ON collective.trace_id = own.trace_id
INNER JOIN staging.gpu_op AS last ON last_node_id = last.gpu_op_id
INNER JOIN staging.trace AS last_trace ON last.trace_id = last_trace.trace_id
GROUP BY number, collective.kind
ORDER BY number
"""
RUN_PATH = """
WITH
placed AS (
    SELECT
        interval.*,
        rank,
        path.start_ns AS origin_ns,
        coalesce(rank <> lag(rank) OVER in_time, true)::INTEGER AS is_change
    FROM critical_path.interval
    INNER JOIN critical_path.path USING (scope, path_id)
    INNER JOIN staging.trace ON interval.trace_id = staging.trace.trace_id
    WHERE scope = 'run'
    WINDOW in_time AS (ORDER BY interval.start_ns)
),

numbered AS (
    SELECT *, sum(is_change) OVER (ORDER BY start_ns) AS part FROM placed
),

summed AS (
    SELECT part, rank, kind, sum(end_ns - start_ns) AS time_ns
    FROM numbered
    GROUP BY ALL
)

SELECT
    part,
    rank,
    (min(start_ns) - any_value(origin_ns)) / 1e6 AS from_ms,
    (max(end_ns) - any_value(origin_ns)) / 1e6 AS to_ms,
    (
        SELECT string_agg(
            printf('%s %.3f', kind, time_ns / 1e6), ', ' ORDER BY time_ns DESC
        )
        FROM summed
        WHERE summed.part = numbered.part AND time_ns >= 50_000
    ) AS kinds
FROM numbered
GROUP BY part, rank
ORDER BY part
"""

ABOUT = """# How much time has a cause

Written by `python benchmarks/explained.py` over a corpus of real traces.

If GPU work and blocking calls are delayed beyond what their causes usually take (the
95th percentile over the trace), that delay has no cause. It is counted as
`unexplained`, not folded into a weight. A path partitions its step to the nanosecond,
so the unexplained time on it is a share of the step; `all` counts it for all GPU work
of the step, on the path or not, as in `critical_path.step_time`. `before the trace` is
time on the path in which work or a thread ran whose start was not recorded. `replay` is
the worst error of a step's time with all waits recomputed. Slack on the path is 0.

Two traces of servers, which have no steps, begin while the GPU runs what was
launched before them (sglang_decode, vllm_piecewise): the first work of a stream starts
463 and 149 ms after its launch, which is time from before the trace.
"""
RANKS_ABOUT = """## Four of eight ranks

DLRM training on eight V100s; four ranks were recorded. Every collective is matched on
all four. In ms: how long each rank waits for the last of them; how long all wait for
the four others, at least (a larger collective of the same kind was faster); how long
moving the data takes.
"""
PATH_ABOUT = """
The critical path of the run's step, from the start of the first rank to the end of the
last, changes ranks where the last one arrived:
"""
HEAD = (
    "trace",
    "paths",
    "not tiled, ns",
    "unexplained on the path, %",
    "before the trace, %",
    "all, mean %",
    "all, most %",
    "replay, worst %",
    "slack on the path, ns",
)


def traces() -> Iterator[Path]:
    """Undamaged Kineto traces of the corpus."""
    for folder in FOLDERS:
        for path in sorted((CORPUS / folder).rglob("*.json*")):
            if "/et/" not in str(path) and "_et" not in path.name:
                yield path


def summaries() -> Iterator[tuple[str, dict[str, Any]]]:
    """How much of each trace is explained."""
    for path in traces():
        name = str(path.relative_to(CORPUS)).removesuffix(".gz").removesuffix(".json")
        tell(name)
        with tracedb.open() as database:
            database.ingest([path])
            has_work = database.sql("SELECT count(*) FROM staging.gpu_op").item()
            for row in database.sql(SUMMARY).iter_rows(named=True):
                if has_work:
                    yield name, row


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    shares = (row[c] for c in ("on_path", "before_trace", "mean", "most", "error"))
    texts = ("" if share is None else f"{share:.2f}" for share in shares)
    paths = f"{row['paths']} {row['scope']}"
    slack = f"{row['most_slack_ns'] or 0:,}"
    return [name, paths, f"{row['untiled_ns']:,}", *texts, slack]


def page() -> str:
    """The whole page."""
    rows = list(summaries())
    stepped = [row for _, row in rows if row["scope"] == "step"]
    mean = sum(row["mean"] for row in stepped) / len(stepped)
    most = max(row["most"] for row in stepped)
    whole = [row for _, row in rows if row["scope"] != "step"]
    of_whole = sum(row["on_path"] for row in whole) / len(whole)
    said = (
        f"Over the {len(stepped)} traces with steps and GPU work {mean:.2f} % is "
        f"unexplained in the mean, {most:.2f} % at most; over the paths of the "
        f"{len(whole)} without steps {of_whole:.2f} %."
    )
    cells = [_cells(name, row) for name, row in rows]
    lines = [ABOUT, said, "", *table(list(HEAD), cells), "", *ranks()]
    return "\n".join(lines) + "\n"


def ranks() -> Iterator[str]:
    """The ranks of one job together: collectives, and the path of the run."""
    with tracedb.open() as database:
        database.ingest([CORPUS / RANKS])
        collectives = database.sql(COLLECTIVES).rows()
        parts = database.sql(RUN_PATH).rows()
    yield RANKS_ABOUT
    head = ["number", "kind", "elements", "ranks", "last", "waits by rank, ms"]
    cells = (
        [
            str(n),
            kind,
            f"{size:,}",
            str(count),
            str(last),
            waits,
            f"{a:.3f}",
            f"{m:.3f}",
        ]
        for n, kind, size, count, last, waits, a, m in collectives
    )
    yield from table([*head, "absent, ms", "moving, ms"], cells, left=2)
    yield PATH_ABOUT
    cells = (
        [str(part), str(rank), f"{begin:.3f}", f"{end:.3f}", kinds or ""]
        for part, rank, begin, end, kinds in parts
    )
    yield from table(["part", "rank", "from, ms", "to, ms", "of it, ms"], cells, left=1)


def main() -> None:
    """Print the page, or write it."""
    asked = parser(__doc__).parse_args()
    publish(page(), asked.write)


if __name__ == "__main__":
    main()
