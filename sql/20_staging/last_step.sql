-- The step with which a recording ends, compared with the three before it on its thread, by
-- the ops and launches that start in them: of traces with several marks of the profiler.
-- One row per such step.
-- Key: step_id.
CREATE VIEW staging.last_step (
    -- The step.
    step_id,
    -- The trace.
    trace_id,
    -- Ops and launches that start in it, on any thread.
    start_count,
    -- Whether the trace has any op or launch, and the step none.
    is_empty,
    -- Whether the recording ended within it: its thread starts nothing after it, and less
    -- than nine tenths of what starts in any step before starts in it, and its thread starts
    -- the same as in the step before, up to its end (of eight names at least). Or less than
    -- a tenth starts in it, and no CUDA graph: that is what a program does after its loop.
    is_cut
) AS
WITH
ordered AS (
    SELECT
        step_id,
        trace_id,
        thread_id,
        start_ns,
        end_ns,
        row_number() OVER (
            PARTITION BY thread_id ORDER BY start_ns DESC, step_id DESC
        ) - 1 AS steps_before_last,
        start_ns = max(start_ns) OVER (PARTITION BY trace_id) AS is_last
    FROM staging.step_range
    INNER JOIN raw.trace USING (trace_id)
    WHERE step_mark IS NULL AND step_from IS NULL AND is_one_step IS NOT true
    QUALIFY count(*) OVER (PARTITION BY trace_id) > 1
),

compared AS (
    SELECT *
    FROM ordered
    WHERE
        steps_before_last <= 3
        AND thread_id IN (SELECT thread_id FROM ordered WHERE is_last)
),

started AS (
    SELECT trace_id, thread_id, start_ns, op_id AS event_id, name, false AS is_graph
    FROM staging.op
    WHERE NOT is_annotation
    UNION ALL
    SELECT trace_id, thread_id, start_ns, call_id, name, target = 'graph'
    FROM staging.call
    WHERE kind = 'launch'
),

counted AS (
    SELECT
        compared.thread_id,
        step_id,
        steps_before_last,
        count(*) FILTER (started.start_ns < end_ns) AS start_count,
        bool_or(
            started.start_ns >= end_ns AND started.thread_id = compared.thread_id
        ) AS goes_on,
        bool_or(is_graph) AS has_graph
    FROM started
    ASOF INNER JOIN compared
        ON started.trace_id = compared.trace_id AND started.start_ns >= compared.start_ns
    GROUP BY compared.thread_id, step_id, steps_before_last
),

-- Threads whose last step has less than those before.
less AS (
    SELECT
        thread_id,
        min(start_count) FILTER (steps_before_last > 0) AS least,
        max(start_count) FILTER (steps_before_last = 0) AS last_count,
        bool_or(has_graph) FILTER (steps_before_last = 0) AS has_graph
    FROM counted
    GROUP BY thread_id
    HAVING
        least >= 10
        AND 10 * last_count < 9 * least
        AND NOT bool_or(goes_on AND steps_before_last = 0)
),

placed AS (
    SELECT
        compared.thread_id,
        started.name,
        row_number() OVER (PARTITION BY step_id ORDER BY started.start_ns, event_id) AS place,
        count(*) OVER (PARTITION BY step_id) AS place_count
    FROM started
    ASOF INNER JOIN compared
        ON started.thread_id = compared.thread_id AND started.start_ns >= compared.start_ns
    INNER JOIN less ON compared.thread_id = less.thread_id
    WHERE steps_before_last <= 1
),

-- Those whose last step is a beginning of the one before (its last op may be unlike; few
-- names would be alike by chance), or next to nothing.
cut AS (
    SELECT thread_id
    FROM (
        SELECT *, min(place_count) OVER (PARTITION BY thread_id) AS common_count
        FROM placed
    )
    WHERE place < common_count
    GROUP BY thread_id
    HAVING
        count(DISTINCT {'place': place, 'name': name}) = max(place)
        AND count(DISTINCT name) >= 8
    UNION
    SELECT thread_id
    FROM less
    WHERE 10 * last_count < least AND NOT has_graph
),

everywhere AS (
    SELECT
        step_id,
        count(*) FILTER (
            started.start_ns >= step.start_ns AND started.start_ns < end_ns
        ) AS start_count
    FROM ordered AS step
    INNER JOIN started USING (trace_id)
    WHERE is_last
    GROUP BY step_id
)

SELECT
    step.step_id,
    step.trace_id,
    coalesce(everywhere.start_count, 0),
    coalesce(everywhere.start_count = 0, false),
    coalesce(
        everywhere.start_count > 0
        AND step.thread_id IN (SELECT thread_id FROM cut),
        false
    )
FROM ordered AS step
LEFT JOIN everywhere USING (step_id)
WHERE is_last;
