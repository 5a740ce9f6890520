-- How long GPU work takes in a trace, by name: what a lake keeps of its kernels and copies.
-- One row per trace and name.
-- Key: trace_id, name.
CREATE VIEW fleet.kernel (
    -- The trace.
    trace_id,
    -- Name of the kernel, or of the copy.
    name,
    -- How often it ran.
    occurrences,
    -- [ns] Time in all.
    total_ns,
    -- [ns] 10th percentile.
    p10_ns,
    -- [ns] Median.
    median_ns,
    -- [ns] 90th percentile.
    p90_ns
) AS
SELECT
    trace_id,
    name,
    count(*),
    sum(end_ns - start_ns)::BIGINT,
    quantile_disc(end_ns - start_ns, 0.1),
    quantile_disc(end_ns - start_ns, 0.5),
    quantile_disc(end_ns - start_ns, 0.9)
FROM staging.gpu_op
GROUP BY trace_id, name;
