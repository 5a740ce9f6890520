-- [ns] The upper limit of a delay: anything longer has another cause. It is the 95th
-- percentile of the instances; with fewer than 20 instances, the largest, but at most twice
-- the median and 10 us.
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
