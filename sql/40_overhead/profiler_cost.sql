-- The host's cost of recording an event, estimated from the trace itself: the time of an op
-- beyond its only child op, if it makes no call of its own. Such ops mostly pass their
-- arguments on, so the median contains little else than the recording. Ops that do more
-- make it too high: it is at most the 2 us of Lin et al. 2022 (section 3), which is also
-- the value if there are fewer than 20 such ops. A call of a Python function costs 0.5 us:
-- between 0.4 and 0.8 us were measured. A trace estimated from code was not recorded: 0.
-- One row per trace with ops.
-- Key: trace_id.
CREATE VIEW overhead.profiler_cost (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of ops used for the estimate.
    op_count,
    -- [ns] Their median; NULL without any.
    median_ns,
    -- [ns] The value used as the cost of an event.
    event_ns,
    -- [ns] The value used as the cost of a call of a Python function.
    python_call_ns
) AS
WITH
around AS (
    SELECT op.run_id, op.trace_id, op.op_id, op.end_ns - op.start_ns - inner_ns AS own_ns
    FROM staging.op AS op
    INNER JOIN (
        SELECT parent_op_id AS op_id, sum(end_ns - start_ns) AS inner_ns
        FROM staging.op
        WHERE parent_op_id IS NOT NULL
        GROUP BY parent_op_id
        HAVING count(*) = 1
    ) USING (op_id)
    ANTI JOIN staging.call ON op.op_id = call.op_id
    WHERE NOT op.is_annotation
)

SELECT
    trace.run_id,
    trace.trace_id,
    count(op_id),
    median(own_ns)::BIGINT,
    CASE
        WHEN any_value(is_estimated) THEN 0
        WHEN count(op_id) < 20 THEN 2_000
        ELSE least(median(own_ns), 2_000)
    END::BIGINT,
    CASE WHEN any_value(is_estimated) THEN 0 ELSE 500 END::BIGINT
FROM (SELECT DISTINCT run_id, trace_id FROM staging.op) AS trace
LEFT JOIN staging.recording AS recording ON trace.trace_id = recording.trace_id
LEFT JOIN around ON trace.trace_id = around.trace_id
GROUP BY trace.run_id, trace.trace_id;
