"""Give events of Intel's unitrace the categories and arguments of PyTorch's.

It writes calls of Level Zero and OpenCL, and ranges of ITT and MPI, as `cpu_op`, and
work of devices as `gpu_op`, in processes that stand for the devices. A flow from the
call that submits it has the number of the work; a call can submit several.
"""

from __future__ import annotations

from tracedb.ingest.other_profiler import OtherProfiler

__all__ = ["UNITRACE"]

_ANY = """
SELECT true FROM raw.event
WHERE
    trace_id = $trace_id AND ph = 'X' AND cat = 'gpu_op'
    AND json_extract_string(args, '$.id') IS NOT NULL
LIMIT 1
"""
_CATEGORISE = """
UPDATE raw.event
SET cat = new_cat, args = json_merge_patch(coalesce(args, '{}'), added)
FROM (
    WITH
    event AS (FROM raw.event WHERE trace_id = $trace_id),

    call AS (FROM event WHERE ph = 'X' AND cat = 'cpu_op' AND dur_ns >= 0),

    -- A call and the works that it submits share the least of their numbers.
    submitted AS (
        SELECT
            call.event_id,
            flow.id AS work,
            min(try_cast(flow.id AS BIGINT)) OVER (PARTITION BY call.event_id)
            AS correlation
        FROM (FROM event WHERE ph = 's' AND starts_with(cat, 'Flow_H2D_')) AS flow
        ASOF INNER JOIN call
            ON
                flow.pid = call.pid
                AND flow.tid = call.tid
                AND flow.ts_ns >= call.ts_ns
        WHERE flow.ts_ns <= call.ts_ns + call.dur_ns
    )

    SELECT
        call.event_id AS found_id,
        CASE
            WHEN regexp_matches(name, '^(ze[sx]?|cl)[A-Z]') THEN 'xpu_driver'
            ELSE cat
        END AS new_cat,
        json_object('correlation', correlation) AS added
    FROM call
    LEFT JOIN (SELECT DISTINCT event_id, correlation FROM submitted) USING (event_id)
    UNION ALL
    SELECT
        event.event_id,
        CASE
            WHEN regexp_matches(
                name, '^(ze|cl)[A-Z]\\w*(Copy|Memcpy|EnqueueRead|EnqueueWrite)'
            ) THEN 'gpu_memcpy'
            WHEN regexp_matches(name, '^(ze|cl)[A-Z]\\w*Fill') THEN 'gpu_memset'
            -- Barriers and events, which run nothing.
            WHEN regexp_matches(name, '^(ze|cl)[A-Z]') THEN 'gpu_user_annotation'
            ELSE 'kernel'
        END,
        json_object(
            'device', dense_rank() OVER (ORDER BY pid) - 1,
            'stream', try_cast(tid AS BIGINT),
            'correlation', correlation
        )
    FROM event
    LEFT JOIN (
        SELECT work, any_value(correlation) AS correlation FROM submitted GROUP BY work
    )
        ON work = json_extract_string(args, '$.id')
    WHERE ph = 'X' AND cat = 'gpu_op'
) AS found
WHERE event_id = found_id
"""

UNITRACE = OtherProfiler("unitrace", _ANY, _CATEGORISE)
