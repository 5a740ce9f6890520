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
WITH
-- The times at which steps begin and end cut a trace into stretches.
bound AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY trace_id ORDER BY time_ns) AS stretch
    FROM (
        SELECT trace_id, start_ns AS time_ns FROM staging.step_range
        UNION
        SELECT trace_id, end_ns FROM staging.step_range
    )
),

covered AS (
    SELECT
        step_id,
        step.trace_id,
        unnest(range(first.stretch, last.stretch)) AS stretch
    FROM staging.step_range AS step
    INNER JOIN bound AS first
        ON step.trace_id = first.trace_id AND step.start_ns = first.time_ns
    INNER JOIN bound AS last
        ON step.trace_id = last.trace_id AND step.end_ns = last.time_ns
),

launched AS (
    SELECT work.trace_id, kernel_id, call.start_ns
    FROM staging.kernel AS work
    INNER JOIN staging.launch AS call ON work.launch_id = call.launch_id
    WHERE work.kind <> 'other'
)

SELECT step_id, launched.trace_id, kernel_id
FROM launched
ASOF INNER JOIN bound
    ON launched.trace_id = bound.trace_id AND launched.start_ns >= bound.time_ns
INNER JOIN covered
    ON bound.trace_id = covered.trace_id AND bound.stretch = covered.stretch;
