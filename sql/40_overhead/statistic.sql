-- Overheads to predict with: how long pieces of each overhead type last (Lin et al. 2022,
-- section 3), by op name for T2, T3 and T5, by call name for T4, by the role of the
-- thread for idle time and data loading, and pooled for T1. Outliers are those beyond
-- 1.5 times the interquartile range. The shared ones pool all runs of the database.
-- One row per scope, type and name.
-- Key: scope, run_id, trace_id, type, name.
CREATE VIEW overhead.statistic (
    -- `trace`, `run` (all its ranks) or `shared` (all runs).
    scope,
    -- The run; NULL in scope `shared`.
    run_id,
    -- The trace; NULL in scopes `run` and `shared`.
    trace_id,
    -- Overhead type.
    type,
    -- Name of the op or the call, or role of the thread; empty for T1.
    name,
    -- Pieces of that type.
    sample_count,
    -- [ns] Mean.
    mean_ns,
    -- [ns] Population standard deviation.
    deviation_ns,
    -- [ns] Median.
    median_ns,
    -- [ns] Mean without outliers.
    trimmed_mean_ns,
    -- Outliers.
    outlier_count
) AS
WITH
sample AS (
    SELECT
        interval.run_id,
        interval.trace_id,
        type,
        CASE
            WHEN type IN ('T2', 'T3', 'T5') THEN op.name
            WHEN type = 'T4' THEN call.name
            WHEN type IN ('idle', 'wait_data') THEN thread.role
            ELSE ''
        END AS name,
        interval.end_ns - interval.start_ns AS sample_ns
    FROM overhead.interval
    INNER JOIN staging.thread ON interval.thread_id = thread.thread_id
    LEFT JOIN staging.op ON interval.op_id = op.op_id
    LEFT JOIN staging.launch AS call ON interval.launch_id = call.launch_id
    WHERE type IN ('T1', 'T2', 'T3', 'T4', 'T5', 'idle', 'wait_data')
),

scoped AS (
    SELECT 'trace' AS scope, * FROM sample
    UNION ALL BY NAME
    SELECT 'run' AS scope, * EXCLUDE (trace_id) FROM sample
    UNION ALL BY NAME
    SELECT 'shared' AS scope, * EXCLUDE (run_id, trace_id) FROM sample
),

fenced AS (
    SELECT
        *,
        quantile_cont(sample_ns, 0.25) OVER lane AS first_quartile_ns,
        quantile_cont(sample_ns, 0.75) OVER lane AS third_quartile_ns
    FROM scoped
    WINDOW lane AS (PARTITION BY scope, run_id, trace_id, type, name)
),

judged AS (
    SELECT
        *,
        abs(sample_ns - (first_quartile_ns + third_quartile_ns) / 2)
        > 2 * (third_quartile_ns - first_quartile_ns) AS is_outlier
    FROM fenced
)

SELECT
    scope,
    run_id,
    trace_id,
    type,
    name,
    count(*),
    round(avg(sample_ns))::BIGINT,
    round(stddev_pop(sample_ns))::BIGINT,
    quantile_disc(sample_ns, 0.5),
    round(avg(sample_ns) FILTER (NOT is_outlier))::BIGINT,
    count(*) FILTER (is_outlier)
FROM judged
GROUP BY scope, run_id, trace_id, type, name;
