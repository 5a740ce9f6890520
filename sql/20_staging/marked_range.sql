-- The ranges that mark steps: the profiler's step marks, or the user ranges, ops, Python
-- functions or calls named by the user. If the user named what starts a step, a step lasts
-- from the start of one such range to the start of the next on its thread; the last range
-- starts no step, because its end is unknown. Steps of a thread do not overlap: a mark is
-- ignored if more than half of it lies before the end of an earlier one on its thread
-- (inside another, for example).
-- One row per range that marks a step.
-- Key: annotation_id.
CREATE TABLE staging.marked_range (
    -- The range's event.
    annotation_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Name.
    name,
    -- Number in the name of a mark of the profiler; NULL for others.
    number,
    -- [ns] Start.
    start_ns,
    -- [ns] End of the step.
    until_ns
) AS
WITH
marking AS (
    SELECT annotation_id, trace_id, thread_id, name, start_ns, end_ns
    FROM staging.annotation
    INNER JOIN raw.trace USING (trace_id)
    WHERE
        regexp_full_match(name, coalesce(step_from, step_mark, 'ProfilerStep#.*'))
        AND annotation_id NOT IN (SELECT annotation_id FROM staging.step_copy)
    UNION ALL
    SELECT event_id, thread.trace_id, thread_id, call.name, start_ns, end_ns
    FROM staging.marking_call AS call
    INNER JOIN staging.thread USING (trace_id, pid, tid)
),

named AS (
    SELECT
        marking.*,
        run_id,
        step_from IS NOT NULL AS is_start,
        CASE
            WHEN step_mark IS NULL AND step_from IS NULL
                THEN try_cast(regexp_extract(name, '#([0-9]+)', 1) AS BIGINT)
        END AS number
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
        *,
        CASE
            WHEN NOT is_start THEN end_ns
            ELSE lead(start_ns) OVER (
                PARTITION BY thread_id ORDER BY start_ns, annotation_id
            )
        END AS until_ns
    FROM named
)

SELECT annotation_id, run_id, trace_id, thread_id, name, number, start_ns, until_ns
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
    );
