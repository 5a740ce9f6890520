"""Move runtime calls and GPU work to the clock of ops, where these disagree.

PyTorch records ops by one clock; calls and GPU work come from the GPU's profiler
(CUPTI, roctracer), whose clock is converted. Where that went wrong by microseconds,
launches lie outside of their ops, or in others. Their External ids tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracedb.ingest.issues import Issues

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

# A launch is within its op, if both have one clock. So each tells by how much calls may
# be too early, and too late. The narrowest such range is used in which all launches
# agree, 98 in 100, or eight in ten. Numbers that name no op mean something else, and
# those that name several, as in files of two recordings, tell nothing.
_DIFFERENCES = """
WITH
launch AS (
    SELECT trace_id, thread_id, external_id, start_ns, end_ns, op_id
    FROM staging.call
    WHERE
        kind = 'launch'
        AND trace_id IN (
            SELECT trace_id FROM staging.trace
            WHERE trace_id IN (SELECT unnest(?)) AND NOT external_id_is_correlation
        )
),

op AS (
    SELECT
        trace_id,
        thread_id,
        external_id,
        min(start_ns) AS start_ns,
        min(end_ns) AS end_ns,
        min(op_id) AS op_id
    FROM staging.op
    WHERE
        trace_id IN (SELECT trace_id FROM launch)
        AND external_id IN (SELECT external_id FROM launch)
    GROUP BY trace_id, thread_id, external_id
    HAVING count(*) = 1
)

SELECT
    trace_id,
    list_filter(
        list_zip(
            quantile_disc(op.start_ns - launch.start_ns, [1, 0.99, 0.9]),
            quantile_disc(op.end_ns - launch.end_ns, [0, 0.01, 0.1])
        ),
        lambda range: range[1] <= range[2]
    )[1] AS agreed,
    agreed[1] + (agreed[2] - agreed[1]) // 2 AS early_ns,
    count(*) FILTER (
        op.op_id IS NOT NULL AND launch.op_id IS DISTINCT FROM op.op_id
    ) AS outside_count
FROM launch
LEFT JOIN op USING (trace_id, thread_id, external_id)
WHERE launch.external_id > 0
GROUP BY trace_id
HAVING
    count(op.op_id) >= greatest(8, 0.9 * count(*))
    AND outside_count > 0.1 * count(*)
    AND NOT coalesce(0 BETWEEN agreed[1] AND agreed[2], false)
ORDER BY trace_id
"""
# Arrows from launches to their work have both their ends there.
_MOVE = """
UPDATE raw.event
SET ts_ns = ts_ns + $early_ns
WHERE
    trace_id = $trace_id
    AND (
        staging.is_host_category(cat)
        AND cat NOT IN ('cpu_op', 'Operator', 'user_annotation')
        OR staging.gpu_op_kind(cat, args) IS NOT NULL
        OR cat IN ('cuda_sync', 'gpu_user_annotation', 'ac2g', 'async', 'async_gpu')
    )
"""
_CORRECTED = "corrected: the clock of runtime calls and GPU work"
_OUTSIDE = "kept: launches outside of the ops that their External ids name"


def correct(
    connection: duckdb.DuckDBPyConnection, trace_ids: Sequence[int]
) -> list[int]:
    """Move what has another clock than ops, and return the traces that have.

    Reads their ops and calls in `staging`, which have to be computed anew. Counts the
    launches of traces for which there is no such clock, as where it drifts.
    """
    corrected = []
    found = connection.execute(_DIFFERENCES, [list(trace_ids)]).fetchall()
    for trace_id, _, early_ns, count in found:
        issues = Issues()
        if early_ns is None:
            issues.add(_OUTSIDE, None, count)
        else:
            values = {"trace_id": trace_id, "early_ns": early_ns}
            connection.execute(_MOVE, values)
            way = "early" if early_ns > 0 else "late"
            by = f"{abs(early_ns) / 1000:,.1f} us {way}"
            detail = f", by which {count:,} launches were {by} for their ops"
            issues.add_told(_CORRECTED, detail)
            corrected.append(trace_id)
        issues.store(connection, trace_id)
    return corrected
