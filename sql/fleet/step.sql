-- The steps of a trace: the rows that a lake stores for questions of the fleet.
-- One row per whole step (`staging.whole_step`) that takes time.
-- Key: step_id.
CREATE VIEW fleet.step (
    -- The step, by its number in the lake.
    step_id,
    -- The trace.
    trace_id,
    -- Number of the step.
    step,
    -- [ns] Start of its mark, since 1970 by the host's clock.
    start_ns,
    -- [ns] From when host and GPU had finished the previous step to when they had finished
    -- this one (`critical_path.step_period`).
    period_ns,
    -- [ns] The time of its mark on the host.
    host_ns,
    -- The collective on which the end of its mark last depends
    -- (`critical_path.collective_before`); NULL if none.
    last_collective_id,
    -- Ops that start in it.
    op_count,
    -- Kernels, copies and memsets whose launches start in it.
    gpu_op_count
) AS
WITH
work AS (
    SELECT step_id, count(op.op_id) AS op_count, count(gpu_op.gpu_op_id) AS gpu_op_count
    FROM graph.node_step AS own
    LEFT JOIN staging.op AS op ON own.node_id = op.op_id
    LEFT JOIN staging.gpu_op AS gpu_op ON own.node_id = gpu_op.gpu_op_id
    GROUP BY step_id
)

SELECT
    step.step_id,
    step.trace_id,
    step,
    base_ns + step.start_ns,
    period.end_ns - period.start_ns,
    step.end_ns - step.start_ns,
    collective_id,
    coalesce(op_count, 0),
    coalesce(gpu_op_count, 0)
FROM staging.step AS step
SEMI JOIN staging.whole_step USING (step_id)
INNER JOIN critical_path.step_period AS period USING (step_id)
INNER JOIN staging.trace AS trace ON step.trace_id = trace.trace_id
LEFT JOIN work ON step.step_id = work.step_id
ASOF LEFT JOIN graph.last_resume AS latest
    ON step.thread_id = latest.thread_id AND step.end_ns >= latest.resume_ns
LEFT JOIN critical_path.collective_before AS earlier
    ON latest.trace_id = earlier.trace_id AND -latest.resume_id = earlier.node
WHERE variant_id = 0;
