-- Host threads that ran ops, calls or user ranges.
-- One row per thread of a trace.
-- Key: thread_id.
CREATE TABLE staging.thread (
    -- The thread's first event, in the order of the file.
    thread_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Process.
    pid,
    -- Thread, as the profiler numbers it.
    tid,
    -- Name, if the trace has it.
    name,
    -- `main` (has the step marks, otherwise the most top-level ops that are not backward),
    -- `autograd` (flows lead to its ops, or at least a tenth of its top-level ops are
    -- backward ops by name),
    -- `data_loading`, `other`.
    role
) AS
WITH
thread AS (
    SELECT
        min(event_id) AS thread_id,
        trace_id,
        pid,
        tid,
        count(*) FILTER (is_step_mark) AS step_count,
        list(DISTINCT name ORDER BY name) FILTER (
            is_step_mark AND name LIKE 'ProfilerStep#%'
        ) AS profiler_marks,
        count(*) FILTER (is_outer AND is_backward) * 10 > count(*) FILTER (is_outer)
        AS goes_backward,
        count(*) FILTER (is_outer AND NOT is_backward AND NOT is_group) AS forward_count,
        count(*) FILTER (kind = 'op') AS op_count
    FROM (
        SELECT
            event.*,
            staging.is_backward_op(name) AS is_backward,
            staging.is_process_group_op(name) AS is_group,
            kind = 'op' AND NOT is_annotation AND top_event_id IS NULL AS is_outer
        FROM staging.host_event AS event
        LEFT JOIN raw.nesting USING (trace_id, event_id)
    )
    GROUP BY trace_id, pid, tid
),

-- Flows lead from forward to backward ops.
flow AS (
    SELECT trace_id, pid, tid, sum(way) > 0 AS is_target
    FROM (
        SELECT trace_id, source_pid AS pid, source_tid AS tid, -1 AS way FROM staging.flow
        UNION ALL
        SELECT trace_id, target_pid, target_tid, 1 FROM staging.flow
    )
    GROUP BY trace_id, pid, tid
),

-- Steps that are Python functions or calls.
marking AS (
    SELECT trace_id, pid, tid, count(*) AS marking_count
    FROM staging.marking_call
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
        * EXCLUDE (step_count, marking_count, goes_backward, is_target),
        greatest(step_count, coalesce(marking_count, 0)) AS step_count,
        coalesce(is_target, false) OR goes_backward AS goes_backward,
        row_number() OVER (
            PARTITION BY trace_id
            ORDER BY
                greatest(step_count, coalesce(marking_count, 0)) DESC,
                op_count = 0,
                coalesce(is_target, false),
                forward_count DESC,
                op_count DESC,
                thread_id
        ) AS ordinal
    FROM thread
    LEFT JOIN marking USING (trace_id, pid, tid)
    LEFT JOIN flow USING (trace_id, pid, tid)
    LEFT JOIN thread_name USING (trace_id, pid, tid)
),

-- Threads with the marks of another one, as in `staging.step_copy`.
compared AS (
    SELECT
        *,
        profiler_marks IS NOT NULL AND row_number() OVER (
            PARTITION BY trace_id, pid, profiler_marks ORDER BY ordinal
        ) > 1 AS has_copies
    FROM ranked
)

SELECT
    thread_id,
    raw.trace.run_id,
    trace_id,
    pid,
    tid,
    name,
    CASE
        WHEN step_count > 0 AND NOT has_copies OR ordinal = 1 THEN 'main'
        WHEN name ILIKE '%autograd%' OR goes_backward THEN 'autograd'
        WHEN name ILIKE '%pin_memory%' OR name ILIKE '%dataloader%' THEN 'data_loading'
        ELSE 'other'
    END AS role
FROM compared
INNER JOIN raw.trace USING (trace_id);
