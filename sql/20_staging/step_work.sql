-- The GPU work of each step: what any thread of the trace launched during the step's mark.
-- One row per step and GPU op.
-- Key: step_id, gpu_op_id.
CREATE TABLE staging.step_work (
    -- Step.
    step_id,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id
) AS
SELECT unnest(step_ids), launched.trace_id, gpu_op_id
FROM (
    SELECT work.trace_id, gpu_op_id, call.start_ns
    FROM staging.gpu_op AS work
    INNER JOIN staging.call AS call ON work.call_id = call.call_id
    WHERE work.kind <> 'other'
) AS launched
ASOF INNER JOIN staging.step_stretch AS stretch
    ON launched.trace_id = stretch.trace_id AND launched.start_ns >= stretch.start_ns;
