-- How long spans of host overhead last in a trace: what a lake keeps of
-- `overhead.statistic`.
-- One row per trace and overhead type.
-- Key: trace_id, type.
CREATE VIEW fleet.overhead (
    -- The trace.
    trace_id,
    -- Overhead type, T1 to T5.
    type,
    -- Spans.
    sample_count,
    -- [ns] Mean without outliers.
    mean_ns,
    -- [ns] Median.
    median_ns,
    -- [ns] 90th percentile.
    p90_ns
) AS
SELECT trace_id, type, sample_count, trimmed_mean_ns, median_ns, p90_ns
FROM overhead.statistic
WHERE scope = 'trace' AND grouping = 'type' AND type LIKE 'T%';
