-- The ranges of host time that are steps: the profiler's step marks, or those that the user
-- named.
-- One row per step.
-- Key: step_id.
CREATE TABLE staging.step_range (
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
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns
) AS
SELECT
    annotation_id,
    annotation.run_id,
    annotation.trace_id,
    thread_id,
    name,
    coalesce(
        try_cast(regexp_extract(name, '#([0-9]+)', 1) AS BIGINT),
        row_number() OVER (
            PARTITION BY annotation.trace_id ORDER BY start_ns, annotation_id
        ) - 1
    ),
    start_ns,
    end_ns
FROM staging.annotation AS annotation
INNER JOIN raw.trace USING (trace_id)
WHERE regexp_full_match(name, coalesce(step_mark, 'ProfilerStep#.*'));
