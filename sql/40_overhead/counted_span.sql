-- The host time that totals count: the spans in steps, and in traces without steps all
-- spans. There, a thread is idle before its first op, launch, wait or Python function and
-- after its last, such as the watchdog of a process group, which only polls.
-- One row per span of a step and thread.
-- Key: step_id, thread_id, start_ns.
CREATE VIEW overhead.counted_span (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Step; NULL in traces without steps.
    step_id,
    -- Host thread.
    thread_id,
    -- T1..T5, a named wait, or idle, as in `overhead.interval`.
    type,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- The top-level op around the span.
    op_id
) AS
WITH
whole AS (
    SELECT
        timeline.*,
        op_id IS NOT NULL OR call_id IS NOT NULL AS is_active
    FROM overhead.timeline AS timeline
    WHERE trace_id NOT IN (SELECT trace_id FROM staging.step)
),

active AS (
    SELECT thread_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM (
        SELECT thread_id, start_ns, end_ns FROM whole WHERE is_active
        UNION ALL
        SELECT thread_id, start_ns, end_ns FROM staging.python_frame
    )
    GROUP BY thread_id
),

-- A gap at either end is idle up to the first Python function in it, and after the last.
part AS (
    SELECT
        whole.*,
        unnest([
            {'is_idle': true, 'from_ns': start_ns, 'until_ns': first_ns},
            {'is_idle': false, 'from_ns': first_ns, 'until_ns': last_ns},
            {'is_idle': true, 'from_ns': last_ns, 'until_ns': end_ns}
        ], max_depth := 2)
    FROM (
        SELECT whole.*, coalesce(first_ns, end_ns) AS first_ns, coalesce(last_ns, end_ns) AS last_ns
        FROM whole
        LEFT JOIN active USING (thread_id)
        WHERE type = 'T1'
    ) AS whole
)

SELECT run_id, trace_id, step_id, thread_id, type, start_ns, end_ns, op_id
FROM overhead.interval
UNION ALL
SELECT run_id, trace_id, NULL, thread_id, type, start_ns, end_ns, op_id
FROM whole
WHERE type <> 'T1'
UNION ALL
SELECT
    run_id,
    trace_id,
    NULL,
    thread_id,
    CASE WHEN is_idle THEN 'idle' ELSE 'T1' END,
    greatest(start_ns, from_ns) AS start_ns,
    least(end_ns, until_ns) AS end_ns,
    op_id
FROM part
WHERE greatest(start_ns, from_ns) < least(end_ns, until_ns);
