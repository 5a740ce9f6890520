-- Which traces differ from the rest of their run? By the distance of a measure from the
-- run's median, in units of the typical distance (the median of these distances).
-- Without three traces with steps in one run it is empty.
-- One row per trace and measure, for runs with at least three traces; the most unusual
-- first.
-- Key: trace_id, measure.
CREATE VIEW fleet.odd_trace (
    -- The trace.
    trace_id,
    -- Its run.
    run,
    -- Its rank.
    rank,
    -- `period` and `host` (medians of its steps), `gpu` (time of its kernels, by step).
    measure,
    -- [ns] The measure.
    value_ns,
    -- [ns] Its median over the run.
    median_ns,
    -- How many typical distances it is away; a distance counts as at least 1 % of the
    -- median.
    distance
) AS
WITH
of_steps AS (
    SELECT
        trace_id,
        count(*) AS steps,
        CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY period_ns)) AS BIGINT) AS period_ns,
        CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY host_ns)) AS BIGINT) AS host_ns
    FROM fleet.step
    GROUP BY trace_id
),

of_kernels AS (
    SELECT trace_id, sum(total_ns) AS total_ns
    FROM fleet.sketch
    WHERE subject = 'kernel'
    GROUP BY trace_id
),

measured AS (
    SELECT trace_id, 'period' AS measure, period_ns AS value_ns
    FROM of_steps
    UNION ALL
    SELECT trace_id, 'host', host_ns
    FROM of_steps
    UNION ALL
    SELECT of_steps.trace_id, 'gpu', CAST(round(total_ns / steps) AS BIGINT)
    FROM of_steps
    INNER JOIN of_kernels ON of_steps.trace_id = of_kernels.trace_id
),

placed AS (
    SELECT measured.trace_id, run, rank, measure, value_ns
    FROM measured
    INNER JOIN fleet.trace AS trace ON measured.trace_id = trace.trace_id
),

typical AS (
    SELECT
        run,
        measure,
        CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY value_ns)) AS BIGINT) AS median_ns
    FROM placed
    GROUP BY run, measure
    HAVING count(*) >= 3
),

usual AS (
    SELECT
        placed.run,
        placed.measure,
        median_ns,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(value_ns - median_ns)) AS away_ns
    FROM placed
    INNER JOIN typical
        ON placed.run = typical.run AND placed.measure = typical.measure
    GROUP BY placed.run, placed.measure, median_ns
)

SELECT
    trace_id,
    placed.run,
    rank,
    placed.measure,
    value_ns,
    median_ns,
    CAST(abs(value_ns - median_ns) AS DOUBLE)
    / greatest(away_ns, 0.01 * median_ns, 1) AS distance
FROM placed
INNER JOIN usual ON placed.run = usual.run AND placed.measure = usual.measure
ORDER BY distance DESC, trace_id, placed.measure;
