-- [ns] What a delay is at most: what exceeds it has another cause. It is the 95th percentile
-- of the instances; of fewer than 20 that is the largest, and there twice the median and
-- 10 us at most.
CREATE MACRO graph.delay_cap_ns(
    -- Instances.
    instance_count,
    -- [ns] Their median.
    median_ns,
    -- [ns] Their 95th percentile.
    p95_ns
) AS (
    CASE
        WHEN instance_count >= 20 THEN p95_ns
        ELSE least(p95_ns, greatest(2 * median_ns, 0) + 10_000)
    END
);
