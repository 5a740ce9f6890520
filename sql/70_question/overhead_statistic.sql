-- How long do overheads of each type usually take, by op or call?
-- One row per run, type and name, the largest sums first.
-- Key: run_id, type, name.
CREATE VIEW question.overhead_statistic (
    -- The run.
    run_id,
    -- Overhead type.
    type,
    -- Name of the op (T2, T3, T5) or of the call (T4); for T1, the op or the call after it.
    name,
    -- Spans.
    sample_count,
    -- [ns] Mean.
    mean_ns,
    -- [ns] 10th percentile.
    p10_ns,
    -- [ns] Median.
    median_ns,
    -- [ns] 90th percentile.
    p90_ns,
    -- [ns] Mean without outliers.
    trimmed_mean_ns,
    -- Outliers.
    outlier_count
) AS
SELECT
    run_id,
    type,
    name,
    sample_count,
    mean_ns,
    p10_ns,
    median_ns,
    p90_ns,
    trimmed_mean_ns,
    outlier_count
FROM overhead.statistic
WHERE scope = 'run' AND grouping = 'name'
ORDER BY run_id, mean_ns * sample_count DESC, type, name;
