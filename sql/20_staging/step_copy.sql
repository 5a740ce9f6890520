-- Marks of the profiler that another thread of their process has at the same time, too. The
-- profiler is in one step at a time; the marks of the main thread count, or of the thread
-- that runs most ops.
-- One row per mark that does not count.
-- Key: annotation_id.
CREATE VIEW staging.step_copy (
    -- The mark's event.
    annotation_id,
    -- The trace.
    trace_id
) AS
WITH
mark AS (
    SELECT annotation_id, trace_id, pid, thread_id, role, range.name, start_ns, end_ns
    FROM staging.annotation AS range
    INNER JOIN staging.thread AS thread USING (trace_id, thread_id)
    INNER JOIN raw.trace USING (trace_id)
    WHERE range.name LIKE 'ProfilerStep#%' AND step_mark IS NULL AND step_from IS NULL
),

beside AS (
    SELECT
        *,
        lag(thread_id) OVER of_step <> thread_id
        AND start_ns + (end_ns - start_ns) // 2 < lag(end_ns) OVER of_step AS follows
    FROM mark
    WINDOW of_step AS (PARTITION BY trace_id, pid, name ORDER BY start_ns, annotation_id)
),

-- With the one that it is a copy of.
repeated AS (
    SELECT *
    FROM beside
    QUALIFY
        coalesce(follows, false)
        OR coalesce(lead(follows) OVER (
            PARTITION BY trace_id, pid, name ORDER BY start_ns, annotation_id
        ), false)
),

active AS (
    SELECT thread_id, count(*) AS op_count
    FROM staging.op
    WHERE thread_id IN (SELECT thread_id FROM repeated) AND NOT staging.is_backward_op(name)
    GROUP BY thread_id
)

SELECT annotation_id, trace_id
FROM repeated
LEFT JOIN active USING (thread_id)
QUALIFY row_number() OVER (
    PARTITION BY trace_id, pid, name
    ORDER BY role = 'main' DESC, coalesce(op_count, 0) DESC, thread_id, start_ns, annotation_id
) > 1;
