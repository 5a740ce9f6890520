-- Host threads that ran ops, calls or user ranges.
-- One row per thread of a trace.
-- Key: thread_id.
CREATE TABLE staging.thread (
    -- The thread's first event, in the order of the file.
    thread_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Process.
    pid,
    -- Thread, as the profiler numbers it.
    tid,
    -- Name, where the trace tells.
    name,
    -- `main` (has the step marks, else the most ops), `autograd`, `data_loading`, `other`.
    role
) AS
WITH
thread AS (
    SELECT
        min(event_id) AS thread_id,
        trace_id,
        pid,
        tid,
        count(*) FILTER (name LIKE 'ProfilerStep#%') AS step_count,
        count(*) FILTER (name LIKE 'autograd::engine::%' OR name LIKE '%Backward%')
        AS backward_count,
        count(*) FILTER (kind = 'op') AS op_count
    FROM staging.host_event
    GROUP BY trace_id, pid, tid
),

thread_name AS (
    SELECT trace_id, pid, tid, any_value(args ->> '$.name') AS name
    FROM raw.event
    WHERE ph = 'M' AND raw.event.name = 'thread_name'
    GROUP BY trace_id, pid, tid
),

ranked AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id
            ORDER BY
                step_count DESC,
                op_count = 0,
                backward_count * 10 > op_count,
                op_count DESC,
                thread_id
        ) AS place
    FROM thread
    LEFT JOIN thread_name USING (trace_id, pid, tid)
)

SELECT
    thread_id,
    raw.trace.run_id,
    trace_id,
    pid,
    tid,
    name,
    CASE
        WHEN step_count > 0 OR place = 1 THEN 'main'
        WHEN name ILIKE '%autograd%' OR backward_count * 10 > op_count THEN 'autograd'
        WHEN name ILIKE '%pin_memory%' OR name ILIKE '%dataloader%' THEN 'data_loading'
        ELSE 'other'
    END AS role
FROM ranked
INNER JOIN raw.trace USING (trace_id);
