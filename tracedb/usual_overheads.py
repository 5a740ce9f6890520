"""Overheads of the middle host of public traces, for runs whose host nobody recorded.

They are the host times that `tracedb estimate --profiled` uses, op by op
(`docs/estimate.md`), put together for the spans of a database, as a library of
overheads has them. So the method `library` needs no file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tracedb.duck import registered
from tracedb.from_code.host_times import HostTimes

if TYPE_CHECKING:
    import duckdb

_NAMES = """
SELECT name FROM staging.op WHERE NOT is_annotation
UNION
SELECT name FROM overhead.sample WHERE type = 'T1'
ORDER BY name
"""
# An op's self time is shared evenly by the spans of its top-level op in which it is
# open. A copy from pageable memory holds the host until it is done. Two runs, because a
# time that only one span had is not learned.
_LOAD = """
INSERT INTO reference.library_sample BY NAME
WITH
span AS (
    SELECT sample.*, span.start_ns, span.end_ns, span.op_id, span.call_id
    FROM overhead.sample AS sample
    INNER JOIN overhead.timeline AS span USING (thread_id, position)
    WHERE sample.type LIKE 'T_'
),

inner_op AS (
    SELECT
        op.op_id, op.name, op.top_op_id, op.start_ns, op.end_ns,
        count(call_id) > 0 AS launches
    FROM staging.op AS op
    LEFT JOIN staging.call AS call ON op.op_id = call.op_id AND call.kind = 'launch'
    WHERE NOT is_annotation
    GROUP BY ALL
),

opened AS (
    SELECT
        thread_id,
        position,
        CASE WHEN launches THEN launching_ns ELSE own_ns END
        / count(*) OVER (PARTITION BY inner_op.op_id) AS own_ns
    FROM span
    INNER JOIN inner_op
        ON
            span.op_id = inner_op.top_op_id
            AND inner_op.start_ns < span.end_ns
            AND inner_op.end_ns > span.start_ns
    INNER JOIN usual ON inner_op.name = usual.name
    WHERE type IN ('T2', 'T3', 'T5')
),

inside AS (
    SELECT thread_id, position, sum(own_ns) AS own_ns
    FROM opened
    GROUP BY ALL
),

called AS (
    SELECT
        call_id,
        any_value(CASE call.target WHEN 'memcpy' THEN $copy ELSE $launch END)
        + coalesce(sum(predicted_ns) FILTER (link = 'pageable'), 0) AS own_ns
    FROM staging.call AS call
    LEFT JOIN staging.gpu_op AS work USING (call_id)
    LEFT JOIN prediction.kernel_time AS time USING (gpu_op_id)
    LEFT JOIN prediction.kernel_roofline AS roofline USING (gpu_op_id)
    WHERE call.kind = 'launch'
    GROUP BY call_id
)

SELECT
    trace_sha256,
    trace_sha256 AS run_sha256,
    dense_rank() OVER (ORDER BY thread_id) AS thread,
    position,
    dense_rank() OVER (ORDER BY step_id) AS step,
    type,
    span.name,
    role,
    shapes,
    ordinal,
    ordinal_count,
    round(CASE type
        WHEN 'T1' THEN gap_ns
        WHEN 'T4' THEN coalesce(called.own_ns, $launch)
        ELSE coalesce(inside.own_ns, 0)
    END)::BIGINT AS sample_ns
FROM span
LEFT JOIN usual ON type = 'T1' AND span.name = usual.name
LEFT JOIN inside USING (thread_id, position)
LEFT JOIN called ON type = 'T4' AND span.call_id = called.call_id
CROSS JOIN (VALUES ('one'), ('another')) AS run (trace_sha256)
"""


def load(connection: duckdb.DuckDBPyConnection, times: HostTimes | None = None) -> None:
    """Fill the empty `reference.library_sample` of a database for its own spans.

    Without `times`, those that ship with tracedb, which include the profiler's cost.
    """
    times = times or HostTimes.shipped(recorded=True)
    names = [name for (name,) in connection.execute(_NAMES).fetchall()]
    usual = pa.table(
        {
            "name": pa.array(names, pa.string()),
            "own_ns": pa.array([times.own_ns(n) for n in names], pa.int64()),
            "launching_ns": pa.array(
                [times.own_ns(n, launches=True) for n in names], pa.int64()
            ),
            "gap_ns": pa.array([times.gap_ns(n) for n in names], pa.int64()),
        }
    )
    with registered(connection, "usual", usual):
        connection.execute(_LOAD, {"launch": times.launch, "copy": times.copy})
