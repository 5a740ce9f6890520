-- Ops that compute on the host: all ops of traces without GPU work, each with its self
-- time. The time of a child op belongs to the child; so does that of a user range recorded
-- as an op.
-- One row per op of a trace without GPU work.
-- Key: op_id.
CREATE VIEW prediction.computing_op (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- The outermost enclosing op, or itself.
    top_op_id,
    -- Name.
    name,
    -- The step in which it starts; NULL outside of steps.
    step_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- [ns] Its time without that of its child ops.
    own_ns
) AS
WITH
here AS (
    SELECT trace_id FROM staging.computing
    EXCEPT
    SELECT DISTINCT trace_id FROM staging.gpu_op
),

within AS (
    SELECT
        inside.parent_op_id AS op_id,
        sum(least(inside.end_ns, around.end_ns) - inside.start_ns)::BIGINT AS time_ns
    FROM staging.op AS inside
    INNER JOIN staging.op AS around ON inside.parent_op_id = around.op_id
    WHERE inside.trace_id IN (SELECT trace_id FROM here)
    GROUP BY inside.parent_op_id
)

SELECT
    op.op_id,
    op.run_id,
    op.trace_id,
    op.thread_id,
    op.top_op_id,
    op.name,
    CASE WHEN step.end_ns > op.start_ns THEN step_id END,
    op.start_ns,
    op.end_ns,
    greatest(op.end_ns - op.start_ns - coalesce(within.time_ns, 0), 0)
FROM staging.op AS op
LEFT JOIN within USING (op_id)
ASOF LEFT JOIN staging.step AS step
    ON op.trace_id = step.trace_id AND op.start_ns >= step.start_ns
WHERE NOT op.is_annotation AND op.trace_id IN (SELECT trace_id FROM here);
