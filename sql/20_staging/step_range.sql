-- The ranges of host time that are steps: what marks them (`staging.marked_range`), and those
-- whose marks were lost (`staging.lost_mark`). A trace that is one step lasts from its first
-- op, launch or wait to the end of the last one.
-- One row per step.
-- Key: step_id.
CREATE TABLE staging.step_range (
    -- The step mark's event; of a trace that is one step, the first event of the thread; of a
    -- step whose mark was lost, its first op or launch.
    step_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread of the mark; of a trace that is one step, the thread that ends last.
    thread_id,
    -- Name of the mark, or `trace`.
    name,
    -- Number of the step, from its name; otherwise its ordinal among the trace's steps,
    -- from 0.
    step,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
whole AS (
    SELECT
        trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
        arg_max(thread_id, (end_ns, -thread_id)) AS thread_id
    FROM (
        SELECT trace_id, thread_id, start_ns, end_ns FROM staging.op WHERE is_top_level
        UNION ALL
        SELECT trace_id, thread_id, start_ns, end_ns FROM staging.call
        WHERE kind IN ('launch', 'wait')
    )
    INNER JOIN raw.trace USING (trace_id)
    WHERE is_one_step
    GROUP BY trace_id
)

SELECT
    annotation_id,
    run_id,
    trace_id,
    thread_id,
    name,
    coalesce(
        try_cast(regexp_extract(name, '#([0-9]+)', 1) AS BIGINT),
        row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, annotation_id) - 1
    ),
    start_ns,
    until_ns
FROM staging.marked_range
UNION ALL
SELECT
    step_id, run_id, trace_id, thread_id, 'ProfilerStep#' || number, number, start_ns, until_ns
FROM staging.lost_mark
UNION ALL
SELECT thread_id, run_id, trace_id, thread_id, 'trace', 0, start_ns, end_ns
FROM whole
INNER JOIN raw.trace USING (trace_id);
