-- Steps whose marks the profiler lost: between those of the numbers before and after, the
-- thread starts at least half as many ops and launches as in the one of these with fewer.
-- Marks follow each other at once, so the step lasts from one to the other.
-- One row per step without a mark; none where several marks in a row are missing.
-- Key: step_id.
CREATE VIEW staging.lost_mark (
    -- The first op or launch in the step.
    step_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread of the marks around it.
    thread_id,
    -- Number of the step.
    number,
    -- [ns] End of the mark before it.
    start_ns,
    -- [ns] Start of the mark after it.
    until_ns
) AS
WITH
mark AS (
    SELECT
        *,
        lag(until_ns) OVER on_thread AS before_ns,
        coalesce(
            number = lag(number) OVER on_thread + 2
            AND start_ns > before_ns
            -- Another thread may have begun it.
            AND number - 1 NOT IN (
                SELECT other.number FROM staging.marked_range AS other
                WHERE other.number IS NOT NULL AND other.trace_id = range.trace_id
            ),
            false
        ) AS follows_gap
    FROM staging.marked_range AS range
    WHERE number IS NOT NULL
    WINDOW on_thread AS (PARTITION BY thread_id ORDER BY start_ns, annotation_id)
),

stretch AS (
    SELECT thread_id, run_id, trace_id, number, start_ns, until_ns, false AS is_gap
    FROM mark
    WHERE thread_id IN (SELECT thread_id FROM mark WHERE follows_gap)
    UNION ALL
    SELECT thread_id, run_id, trace_id, number - 1, before_ns, start_ns, true
    FROM mark
    WHERE follows_gap
),

started AS (
    SELECT op_id AS event_id, thread_id, start_ns
    FROM staging.op
    WHERE NOT is_annotation
    UNION ALL
    SELECT call_id, thread_id, start_ns FROM staging.call WHERE kind = 'launch'
),

counted AS (
    SELECT
        stretch.thread_id,
        stretch.start_ns,
        count(*) AS start_count,
        arg_min(event_id, (started.start_ns, event_id)) AS first_id
    FROM started
    ASOF INNER JOIN stretch
        ON started.thread_id = stretch.thread_id AND started.start_ns >= stretch.start_ns
    WHERE started.start_ns < until_ns
    GROUP BY stretch.thread_id, stretch.start_ns
),

around AS (
    SELECT
        *,
        lag(start_count) OVER on_thread AS count_before,
        lead(start_count) OVER on_thread AS count_after
    FROM stretch
    INNER JOIN counted USING (thread_id, start_ns)
    WINDOW on_thread AS (PARTITION BY thread_id ORDER BY start_ns)
)

SELECT first_id, run_id, trace_id, thread_id, number, start_ns, until_ns
FROM around
WHERE is_gap AND 2 * start_count >= least(count_before, count_after);
