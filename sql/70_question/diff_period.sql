-- Do the steps of one run take longer than those of another? Compares the period of each
-- step (without steps, the time of each trace). What ranks do in a step is one observation,
-- the mean of their periods, because they wait for each other.
-- One row per pair of runs.
-- Key: run_a, run_b.
CREATE MACRO question.diff_period(
    -- The first run.
    a,
    -- The second run.
    b
) AS TABLE
SELECT
    -- The first run.
    run_a,
    -- The second run.
    run_b,
    -- Steps of the first run, of all ranks together.
    a_step_count,
    -- Steps of the second run.
    b_step_count,
    -- Ranks of the first run; 0 if unknown.
    a_rank_count,
    -- Ranks of the second run.
    b_rank_count,
    -- [ns] Median period of the first run.
    a_median_ns,
    -- [ns] Median period of the second run.
    b_median_ns,
    -- [ns] Mean period of the first run.
    a_mean_ns,
    -- [ns] Mean period of the second run.
    b_mean_ns,
    -- [ns] How much longer the second run's mean is: what the other questions explain.
    change_ns,
    -- [1] That divided by the first run's mean.
    change_share,
    -- Probability that such a difference is due to chance (`question.rank_test_p`); NULL if
    -- there are too few steps.
    p_value,
    -- [ns] How much the medians of two starts may differ by chance
    -- (`question.start_chance_ns`); NULL if there are too few steps.
    chance_ns,
    -- Whether the probability is below 5 %, and the medians differ by more than that.
    is_significant
FROM (
    WITH
    side AS (
        SELECT
            run_id,
            rank_count,
            list(time_ns ORDER BY observation) AS times,
            count(*) AS step_count,
            median(time_ns)::BIGINT AS median_ns,
            round(avg(time_ns))::BIGINT AS mean_ns
        FROM critical_path.compared_measure
        INNER JOIN (
            SELECT run_id, count(DISTINCT rank) AS rank_count
            FROM critical_path.compared_path
            GROUP BY run_id
        ) USING (run_id)
        WHERE run_id IN (a, b) AND measure = 'period'
        GROUP BY run_id, rank_count
    )

    SELECT
        own.run_id AS run_a,
        other.run_id AS run_b,
        own.step_count AS a_step_count,
        other.step_count AS b_step_count,
        own.rank_count AS a_rank_count,
        other.rank_count AS b_rank_count,
        own.median_ns AS a_median_ns,
        other.median_ns AS b_median_ns,
        own.mean_ns AS a_mean_ns,
        other.mean_ns AS b_mean_ns,
        other.mean_ns - own.mean_ns AS change_ns,
        (other.mean_ns - own.mean_ns) / nullif(own.mean_ns, 0) AS change_share,
        question.rank_test_p(own.times, other.times) AS p_value,
        round(question.start_chance_ns(own.times, other.times))::BIGINT AS chance_ns,
        p_value < 0.05 AND abs(b_median_ns - a_median_ns) > chance_ns AS is_significant
    FROM side AS own
    INNER JOIN side AS other ON own.run_id = a AND other.run_id = b
);
