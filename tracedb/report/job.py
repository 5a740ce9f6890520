"""The report of a job from its table of operations: what stragglers cost, and where.

A table has neither threads nor streams: its timeline has a lane for each worker, with
the operations on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tracedb.report.sections import Section
from tracedb.report.timeline import (
    MOST_LANES,
    Chosen,
    Step,
    close_steps,
    drawn,
    put_close,
)

if TYPE_CHECKING:
    import duckdb

# Tables count from the start of the step, or of the job: here, steps follow each other.
_STEP = """
WITH
lasting AS (
    SELECT
        min(trace_id) AS trace_id, step, min(start_ns) AS first_ns,
        max(end_ns) - first_ns AS time_ns
    FROM staging.operation
    WHERE run_id = $run
    GROUP BY step
),

step AS (
    SELECT *, (sum(time_ns) OVER (ORDER BY step) - time_ns)::BIGINT AS start_ns
    FROM lasting
),

worker AS (
    SELECT DISTINCT
        rank, dp_rank, stage,
        dense_rank() OVER (ORDER BY dp_rank, stage, rank) - 1 AS lane
    FROM staging.operation
    WHERE run_id = $run
)
"""
_STEPS = f"""
{_STEP}
SELECT trace_id, NULL, step, step, start_ns, time_ns
FROM step
ORDER BY step
"""
_WORKERS = f"""
{_STEP}
SELECT (SELECT min(trace_id) FROM step), rank, stage
FROM worker
ORDER BY lane
"""
# Those of one lane that may run at the same time are below each other.
_SLICES = f"""
CREATE OR REPLACE TEMP TABLE report_slice AS
{_STEP},

depth AS (
    SELECT type, dense_rank() OVER (ORDER BY stream <> 'compute', stream) - 1 AS depth
    FROM (
        SELECT DISTINCT type, coalesce(stream, 'compute') AS stream
        FROM staging.operation
        LEFT JOIN staging.operation_type USING (type)
        WHERE run_id = $run
    )
)

SELECT
    lane, 'gpu' AS track, depth, type AS kind,
    step.start_ns + operation.start_ns - first_ns AS start_ns,
    operation.end_ns - operation.start_ns AS time_ns, type AS name, NULL AS op,
    operation_id AS node_id,
    EXISTS (
        FROM close
        WHERE close.start_ns <= step.start_ns AND step.start_ns < close.end_ns
    ) AS is_close
FROM staging.operation AS operation
INNER JOIN step USING (step)
INNER JOIN worker USING (rank, dp_rank, stage)
INNER JOIN depth USING (type)
WHERE run_id = $run AND lane < $lanes
"""
_NO_INTERVALS = """
CREATE OR REPLACE TEMP TABLE report_interval AS
SELECT
    0 AS row, 0 AS lane, '' AS kind, 0 AS start_ns, 0 AS time_ns, '' AS name, '' AS op,
    0 AS node_id
WHERE false
"""
SECTIONS = (
    Section(
        "slowdown",
        "What slows the steps",
        "What a step takes longer if only these operations keep their own times, and "
        "all others have the typical ones (simulated).",
        """
SELECT
    CASE scope
        WHEN 'stage' THEN 'stage '
        WHEN 'dp_rank' THEN 'data-parallel rank '
        WHEN 'worker' THEN 'worker of rank '
        ELSE ''
    END || name AS what,
    round((slow.slowdown - 1) * ideal_ns)::BIGINT AS cost_ns, slow.slowdown
FROM question.straggler_slowdown AS slow
INNER JOIN question.job USING (run_id)
WHERE
    run_id = $run AND step IS NULL
    AND CASE scope
        WHEN 'stage' THEN stage_count > 1
        WHEN 'dp_rank' THEN dp_rank_count > 1
        WHEN 'worker' THEN stage_count > 1 AND dp_rank_count > 1
        ELSE scope = 'op_type'
    END
ORDER BY cost_ns DESC, scope, name""",
        picture="costs",
        empty="Unknown: operations wait for each other in a cycle, or no two steps are "
        "alike.",
    ),
    Section(
        "recovery",
        "What would recover it",
        "Steps in which only some workers become like the others.",
        """
SELECT name, simulated_ns, without_ns, ideal_ns, recovered_share
FROM question.straggler_recovery
WHERE run_id = $run
ORDER BY recovered_share DESC, name""",
        follows=True,
    ),
    Section(
        "steps",
        "Steps",
        "The simulated time of each step: with typical times of all operations, and "
        "what their own times add.",
        """
SELECT
    step, kind, time_ns, time_ns / sum(time_ns) OVER (PARTITION BY step) AS time_share
FROM (
    SELECT
        step,
        max(simulated_ns) FILTER (scope = 'ideal') AS typical,
        max(simulated_ns) FILTER (scope = 'job') - typical AS stragglers
    FROM reference.straggler_time
    WHERE run_id = $run
    GROUP BY step
) UNPIVOT (time_ns FOR kind IN (typical, stragglers))
ORDER BY step, kind DESC""",
        picture="stack",
        follows=True,
    ),
    Section(
        "workers",
        "Computation of workers",
        "How long each worker computes in each step.",
        """
SELECT
    rank, dp_rank, stage, step, sum(duration_ns)::BIGINT AS compute_ns
FROM staging.operation
INNER JOIN staging.operation_type USING (type)
WHERE run_id = $run AND kind = 'compute'
GROUP BY rank, dp_rank, stage, step
ORDER BY rank, dp_rank, stage, step""",
        picture="heat",
        empty="The table has no computation.",
    ),
    Section(
        "operations",
        "Operations",
        "All operations by type.",
        """
SELECT
    type, count(*) AS operations, sum(duration_ns)::BIGINT AS time_ns,
    median(duration_ns)::BIGINT AS median_ns, max(duration_ns) AS longest_ns
FROM staging.operation
WHERE run_id = $run
GROUP BY type
ORDER BY time_ns DESC, type""",
    ),
    Section(
        "files",
        "Files",
        "The tables of the run.",
        """
SELECT trace_id, path, event_count
FROM staging.trace
WHERE run_id = $run
ORDER BY trace_id""",
    ),
)


class _Worker(NamedTuple):
    """A worker of a job: a stage of a data-parallel rank."""

    trace_id: int
    number: int
    stage: int
    is_open: bool = False
    rank: None = None

    @property
    def label(self) -> str:
        """Its label."""
        return f"rank {self.number}, stage {self.stage}"


def timeline(
    connection: duckdb.DuckDBPyConnection, run: int, most: int
) -> dict[str, Any]:
    """Lanes, operations and steps of a job, as data for the page.

    A lane is a worker; there are no critical paths.
    """
    values = {"run": run}
    steps = [Step(*row) for row in connection.execute(_STEPS, values).fetchall()]
    workers = connection.execute(_WORKERS, values).fetchall()
    lanes = [_Worker(*worker) for worker in workers[:MOST_LANES]]
    hidden = []
    if len(workers) > MOST_LANES:
        hidden.append(f"The first {MOST_LANES} of {len(workers)} workers are drawn.")
    if len(steps) > 1:
        hidden.append("Steps are drawn one after another, without the time between.")
    close = close_steps(steps)
    put_close(connection, close)
    connection.execute(_SLICES, {**values, "lanes": MOST_LANES})
    connection.execute(_NO_INTERVALS)
    content = drawn(connection, Chosen(lanes, steps, close, hidden), most)
    for row in content["rows"]:
        # Operations are no nodes of the graph, which `tracedb depends` could show.
        del row["i"]
    return content
