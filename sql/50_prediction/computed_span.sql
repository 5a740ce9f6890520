-- Where the self time of ops whose batch size scenarios change lies on host threads: an op
-- that several spans share (a step ended in its middle) has its part in each.
-- One row per scenario and span of an op that it changes.
-- Key: scenario, thread_id, position.
CREATE VIEW prediction.computed_span (
    -- The scenario.
    scenario,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- Its added time, divided by its time.
    growth
) AS
SELECT
    scenario,
    op.thread_id,
    position,
    sum(
        (changed_ns - changed.own_ns)
        * (least(op.end_ns, span.end_ns) - greatest(op.start_ns, span.start_ns))
        / (op.end_ns - op.start_ns)
        / (span.end_ns - span.start_ns)
    )
FROM prediction.bounded_op_time AS changed
INNER JOIN staging.op AS op USING (op_id)
INNER JOIN overhead.timeline AS span
    ON
        op.thread_id = span.thread_id
        AND op.top_op_id = span.op_id
        AND span.start_ns < op.end_ns
        AND span.end_ns > op.start_ns
WHERE changed_ns <> changed.own_ns AND span.type LIKE 'T_'
GROUP BY scenario, op.thread_id, position;
