-- The host time that totals count: the spans in steps, and in traces without steps all
-- spans.
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
SELECT run_id, trace_id, step_id, thread_id, type, start_ns, end_ns, op_id
FROM overhead.interval
UNION ALL
SELECT run_id, trace_id, NULL, thread_id, type, start_ns, end_ns, op_id
FROM overhead.timeline
WHERE trace_id NOT IN (SELECT trace_id FROM staging.step);
