-- The GPU work of each step: what any thread of the trace launched while the step's mark
-- lasted.
-- One row per step and piece of GPU work.
-- Key: step_id, kernel_id.
CREATE TABLE staging.step_work (
    -- Step.
    step_id,
    -- The trace it is from.
    trace_id,
    -- The GPU work.
    kernel_id
) AS
SELECT unnest(step_ids), launched.trace_id, kernel_id
FROM (
    SELECT work.trace_id, kernel_id, call.start_ns
    FROM staging.kernel AS work
    INNER JOIN staging.launch AS call ON work.launch_id = call.launch_id
    WHERE work.kind <> 'other'
) AS launched
ASOF INNER JOIN staging.step_stretch AS stretch
    ON launched.trace_id = stretch.trace_id AND launched.start_ns >= stretch.start_ns;
