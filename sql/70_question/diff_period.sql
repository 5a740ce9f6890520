-- Do the steps of one run take longer than those of another? Of the period of each step (of
-- traces without steps the time of each trace), all ranks together.
-- One row per pair of runs.
-- Key: run_a, run_b.
CREATE MACRO question.diff_period(
    -- The one run.
    a,
    -- The other.
    b
) AS TABLE
SELECT
    -- The one run.
    run_a,
    -- The other.
    run_b,
    -- Steps of the one; of several ranks those of each count.
    a_step_count,
    -- Steps of the other.
    b_step_count,
    -- [ns] Median period of the one.
    a_median_ns,
    -- [ns] Median period of the other.
    b_median_ns,
    -- [ns] Mean period of the one.
    a_mean_ns,
    -- [ns] Mean period of the other.
    b_mean_ns,
    -- [ns] By how much the mean of the other is longer: what the other questions explain.
    change_ns,
    -- [1] That over the mean of the one.
    change_share,
    -- How likely steps that differ by chance alone are as far apart (`question.rank_test_p`);
    -- NULL for too few.
    p_value,
    -- Whether that is below 5 %.
    is_significant
FROM (
    WITH
    side AS (
        SELECT
            run_id,
            list(time_ns ORDER BY trace_id, path_id) AS times,
            count(*) AS step_count,
            median(time_ns)::BIGINT AS median_ns,
            round(avg(time_ns))::BIGINT AS mean_ns
        FROM critical_path.compared_path
        WHERE run_id IN (a, b)
        GROUP BY run_id
    )

    SELECT
        own.run_id AS run_a,
        other.run_id AS run_b,
        own.step_count AS a_step_count,
        other.step_count AS b_step_count,
        own.median_ns AS a_median_ns,
        other.median_ns AS b_median_ns,
        own.mean_ns AS a_mean_ns,
        other.mean_ns AS b_mean_ns,
        other.mean_ns - own.mean_ns AS change_ns,
        (other.mean_ns - own.mean_ns) / nullif(own.mean_ns, 0) AS change_share,
        question.rank_test_p(own.times, other.times) AS p_value,
        p_value < 0.05 AS is_significant
    FROM side AS own
    INNER JOIN side AS other ON own.run_id = a AND other.run_id = b
);
