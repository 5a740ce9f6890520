-- The ranges of host time that are steps: the profiler's step marks, or the user ranges, ops,
-- Python functions or calls named by the user. If the user named what starts a step, a step
-- lasts from the start of one such range to the start of the next on its thread; the last
-- range starts no step, because its end is unknown. Steps of a thread do not overlap: a mark
-- is ignored if more than half of it lies before the end of an earlier one on its thread
-- (inside another, for example). A trace that is one step lasts from its first op, launch or
-- wait to the end of the last one.
-- One row per step.
-- Key: step_id.
CREATE TABLE staging.step_range (
    -- The step mark's event; of a trace that is one step, the first event of the thread.
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
    end_ns,
    -- Whether it is the last of several marks of the profiler, and no op or launch starts in
    -- it: when a program ends its last step, the profiler begins one more, which ends with
    -- the recording.
    is_empty
) AS
WITH
marking AS (
    SELECT annotation_id, trace_id, thread_id, name, start_ns, end_ns
    FROM staging.annotation
    INNER JOIN raw.trace USING (trace_id)
    WHERE regexp_full_match(name, coalesce(step_from, step_mark, 'ProfilerStep#.*'))
    UNION ALL
    SELECT event_id, thread.trace_id, thread_id, call.name, start_ns, end_ns
    FROM staging.marking_call AS call
    INNER JOIN staging.thread USING (trace_id, pid, tid)
),

named AS (
    SELECT marking.*, run_id, step_from IS NOT NULL AS is_start
    FROM marking
    INNER JOIN raw.trace USING (trace_id)
    WHERE is_one_step IS NOT true
    -- One within another starts no step.
    QUALIFY
        NOT is_start
        OR start_ns >= coalesce(
            max(end_ns) OVER (
                PARTITION BY thread_id
                ORDER BY start_ns, end_ns DESC, annotation_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            start_ns
        )
),

mark AS (
    SELECT
        * EXCLUDE (is_start),
        CASE
            WHEN NOT is_start THEN end_ns
            ELSE lead(start_ns) OVER (
                PARTITION BY thread_id ORDER BY start_ns, annotation_id
            )
        END AS until_ns
    FROM named
),

non_overlapping AS (
    SELECT *
    FROM mark
    WHERE until_ns IS NOT NULL
    QUALIFY
        coalesce(
            start_ns + (until_ns - start_ns) // 2 >= max(until_ns) OVER (
                PARTITION BY thread_id
                ORDER BY start_ns, until_ns DESC, annotation_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            true
        )
),

last_mark AS (
    SELECT annotation_id, trace_id, start_ns, until_ns
    FROM non_overlapping
    INNER JOIN raw.trace USING (trace_id)
    WHERE step_mark IS NULL AND step_from IS NULL
    QUALIFY
        start_ns = max(start_ns) OVER (PARTITION BY trace_id)
        AND count(*) OVER (PARTITION BY trace_id) > 1
),

started AS (
    SELECT trace_id, start_ns FROM staging.op
    UNION ALL
    SELECT trace_id, start_ns FROM staging.call WHERE kind = 'launch'
),

empty_mark AS (
    SELECT annotation_id
    FROM last_mark
    INNER JOIN started USING (trace_id)
    GROUP BY annotation_id
    HAVING NOT bool_or(
        started.start_ns >= last_mark.start_ns AND started.start_ns < until_ns
    )
),

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
    until_ns,
    annotation_id IN (SELECT annotation_id FROM empty_mark)
FROM non_overlapping
UNION ALL
SELECT thread_id, run_id, trace_id, thread_id, 'trace', 0, start_ns, end_ns, false
FROM whole
INNER JOIN raw.trace USING (trace_id);
