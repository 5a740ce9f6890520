-- Iterations: the profiler's step marks, or those that the user named, on their host
-- thread. Without either a trace has no steps; staging.step_mark tells what could be one.
-- One row per step.
-- Key: step_id.
CREATE TABLE staging.step (
    -- The step mark's event.
    step_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread of the mark.
    thread_id,
    -- Name of the mark.
    name,
    -- Number of the step, from its name; else its place among the trace's steps, from 0.
    step,
    -- [ns] Begin of the mark.
    start_ns,
    -- [ns] End of the mark.
    end_ns,
    -- [ns] End of the last GPU work that was launched in the step, if any was.
    gpu_end_ns
) AS
WITH
mark AS (
    SELECT
        annotation.*,
        coalesce(
            try_cast(regexp_extract(name, '#([0-9]+)', 1) AS BIGINT),
            row_number() OVER (
                PARTITION BY annotation.trace_id ORDER BY start_ns, annotation_id
            ) - 1
        ) AS step
    FROM staging.annotation AS annotation
    INNER JOIN raw.trace USING (trace_id)
    WHERE regexp_full_match(name, coalesce(step_mark, 'ProfilerStep#.*'))
),

launched AS (
    SELECT mark.annotation_id, max(staging.kernel.end_ns) AS gpu_end_ns
    FROM mark
    INNER JOIN staging.launch
        ON
            mark.trace_id = staging.launch.trace_id
            AND mark.start_ns <= staging.launch.start_ns
            AND mark.end_ns > staging.launch.start_ns
    INNER JOIN staging.kernel ON staging.launch.launch_id = staging.kernel.launch_id
    GROUP BY mark.annotation_id
)

SELECT
    annotation_id AS step_id,
    run_id,
    trace_id,
    thread_id,
    name,
    step,
    start_ns,
    end_ns,
    gpu_end_ns
FROM mark
LEFT JOIN launched USING (annotation_id);
