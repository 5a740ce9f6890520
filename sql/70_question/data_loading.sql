-- How long does each step fetch its batches, and what do the GPUs do meanwhile? All ranges
-- of data loaders (`staging.data_loading`), each time counted once; with several GPUs, busy
-- means any.
-- One row per step and thread that fetches, and per trace for time outside steps.
-- Key: trace_id, step_id, thread_id.
CREATE VIEW question.data_loading (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step; NULL outside of steps.
    step_id,
    -- Number of the step; NULL outside of steps.
    step,
    -- Role of the host thread.
    role,
    -- Who fetches: `workers` (processes of the DataLoader), `main` (the loader's own
    -- process), NULL if the ranges do not show it.
    fetched_by,
    -- Ranges that start in it.
    batch_count,
    -- [ns] Time in a data loader.
    time_ns,
    -- [1] Its share of the step's mark; NULL outside of steps.
    time_share,
    -- [ns] The part of this time in which a GPU was busy.
    busy_ns,
    -- [ns] The remaining time, with no GPU busy.
    idle_ns,
    -- [ns] Data loading on the critical path of the step's period; NULL outside of steps.
    path_ns,
    -- The host thread.
    thread_id
) AS
WITH
range AS (
    SELECT loading.*, name
    FROM staging.data_loading AS loading
    INNER JOIN staging.annotation AS annotation USING (annotation_id)
    WHERE loading.end_ns > loading.start_ns
),

fetching AS (
    SELECT DISTINCT trace_id, thread_id FROM range
),

change AS (
    SELECT
        trace_id,
        thread_id,
        unnest([start_ns, end_ns]) AS at_ns,
        unnest([1, -1]) AS loading,
        0 AS working
    FROM range
    UNION ALL
    SELECT
        trace_id,
        thread_id,
        unnest([start_ns, end_ns]),
        0,
        unnest([1, -1])
    FROM staging.gpu_op
    INNER JOIN fetching USING (trace_id)
    WHERE kind <> 'other'
    UNION ALL
    -- Steps divided into pieces that each belong to one step.
    SELECT trace_id, fetching.thread_id, unnest([start_ns, end_ns]), 0, 0
    FROM staging.step
    INNER JOIN fetching USING (trace_id)
),

stretch AS (
    SELECT
        trace_id,
        thread_id,
        at_ns,
        lead(at_ns) OVER in_order - at_ns AS time_ns,
        sum(loading) OVER in_order > 0 AS is_loading,
        sum(working) OVER in_order > 0 AS is_busy
    FROM change
    WINDOW in_order AS (
        PARTITION BY trace_id, thread_id ORDER BY at_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),

-- Of several steps around a piece, the one that started last.
placed AS (
    SELECT stretch.*, CASE WHEN at_ns < step.end_ns THEN step_id END AS step_id
    FROM stretch
    ASOF LEFT JOIN staging.step AS step
        ON stretch.trace_id = step.trace_id AND at_ns >= step.start_ns
    WHERE is_loading AND time_ns > 0
),

summed AS (
    SELECT
        trace_id,
        thread_id,
        step_id,
        sum(time_ns) AS time_ns,
        coalesce(sum(time_ns) FILTER (is_busy), 0) AS busy_ns
    FROM placed
    GROUP BY trace_id, thread_id, step_id
),

begun AS (
    SELECT
        range.trace_id,
        range.thread_id,
        CASE WHEN range.start_ns < step.end_ns THEN step_id END AS step_id,
        count(*) AS batch_count
    FROM range
    ASOF LEFT JOIN staging.step AS step
        ON range.trace_id = step.trace_id AND range.start_ns >= step.start_ns
    GROUP BY ALL
),

loader AS (
    SELECT
        trace_id,
        thread_id,
        CASE
            WHEN bool_or(contains(name, '_MultiProcessing')) THEN 'workers'
            WHEN bool_or(contains(name, '_SingleProcess')) THEN 'main'
        END AS fetched_by
    FROM range
    GROUP BY trace_id, thread_id
),

on_path AS (
    SELECT path.step_id, sum(interval.end_ns - interval.start_ns) AS path_ns
    FROM critical_path.interval AS interval
    INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
    WHERE variant_id = 0 AND scope = 'period' AND interval.kind = 'data_loading'
    GROUP BY path.step_id
)

SELECT
    summed.trace_id,
    rank,
    summed.step_id,
    step,
    role,
    fetched_by,
    coalesce(batch_count, 0),
    time_ns::BIGINT AS time_ns,
    time_ns / nullif(step.end_ns - step.start_ns, 0),
    busy_ns::BIGINT AS busy_ns,
    (time_ns - busy_ns)::BIGINT,
    CASE WHEN summed.step_id IS NOT NULL THEN coalesce(path_ns, 0) END::BIGINT,
    summed.thread_id
FROM summed
INNER JOIN staging.trace AS trace ON summed.trace_id = trace.trace_id
INNER JOIN staging.thread AS thread ON summed.thread_id = thread.thread_id
INNER JOIN loader ON summed.thread_id = loader.thread_id
LEFT JOIN begun
    ON
        summed.thread_id = begun.thread_id
        AND summed.step_id IS NOT DISTINCT FROM begun.step_id
LEFT JOIN staging.step AS step ON summed.step_id = step.step_id
LEFT JOIN on_path ON summed.step_id = on_path.step_id
ORDER BY summed.trace_id, step, summed.step_id, summed.thread_id;
