-- Times that edits take from elsewhere: from other steps of the trace, from other ranks in
-- the same step, or from another run (`prediction.time_sample`). A target without a match
-- keeps its time. For a partly selected span, that part of the difference counts.
-- Without edits it is empty.
-- One row per edit, and span of host time or GPU op that it sets.
-- Key: scenario, edit, kind, target_id, position.
CREATE TABLE prediction.set_time (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- `host` (a span of host time) or `gpu` (GPU work).
    kind,
    -- The thread, or the GPU op.
    target_id,
    -- Position of the span on the thread; 0 for GPU work.
    position,
    -- The trace.
    trace_id,
    -- Number of times it is computed from, including its own.
    sample_count,
    -- [ns] The time it is set to.
    set_ns
) AS
WITH
edit AS (
    SELECT scenario, position AS edit, set_to, from_run
    FROM prediction.scenario_edit
    WHERE set_to IS NOT NULL OR from_run IS NOT NULL
),

wanted AS (
    SELECT edit.*, 'host' AS kind, thread_id AS target_id, position, chosen_ns / span_ns AS share
    FROM edit
    INNER JOIN prediction.chosen_span USING (scenario, edit)
    WHERE span_ns > 0
    UNION ALL
    SELECT edit.*, 'gpu', gpu_op_id, 0, 1
    FROM edit
    INNER JOIN prediction.chosen_work USING (scenario, edit)
),

sample AS MATERIALIZED (
    SELECT * FROM prediction.time_sample
    WHERE EXISTS (SELECT 1 FROM edit)
),

own AS (
    SELECT
        wanted.*,
        sample.trace_id,
        key,
        is_collective,
        sample_ns,
        CASE WHEN set_to = 'step_median' THEN 'trace' WHEN from_run IS NULL THEN 'step' ELSE 'run' END
        AS pool,
        CASE
            WHEN set_to = 'step_median' THEN sample.trace_id
            ELSE coalesce(from_run, sample.run_id)
        END AS pool_id,
        CASE WHEN pool = 'step' THEN step ELSE 0 END AS step
    FROM wanted
    INNER JOIN sample USING (kind, target_id, position)
),

-- The source of times: a trace, a step on all ranks, or a run.
pooled AS (
    SELECT 'trace' AS pool, trace_id AS pool_id, 0 AS step, key, sample_ns
    FROM sample
    WHERE trace_id IN (SELECT pool_id FROM own WHERE pool = 'trace')
    UNION ALL
    SELECT 'step', run_id, step, key, sample_ns
    FROM sample
    WHERE run_id IN (SELECT pool_id FROM own WHERE pool = 'step')
    UNION ALL
    SELECT 'run', run_id, 0, key, sample_ns
    FROM sample
    WHERE run_id IN (SELECT pool_id FROM own WHERE pool = 'run')
),

statistic AS (
    SELECT
        pool,
        pool_id,
        step,
        key,
        count(*) AS sample_count,
        median(sample_ns) AS median_ns,
        min(sample_ns) AS min_ns,
        avg(sample_ns) AS mean_ns
    FROM pooled
    GROUP BY pool, pool_id, step, key
)

SELECT
    scenario,
    edit,
    kind,
    target_id,
    position,
    trace_id,
    sample_count,
    round(
        sample_ns + share * (
            CASE
                WHEN set_to = 'rank_min' THEN min_ns
                WHEN set_to = 'ideal' AND NOT is_collective THEN mean_ns
                ELSE median_ns
            END - sample_ns
        )
    )::BIGINT
FROM own
INNER JOIN statistic USING (pool, pool_id, step, key)
WHERE trace_id IN (SELECT trace_id FROM staging.computing);
