-- Is another run slower than a baseline's own noise explains? Compares the median over
-- steps of the period, and of each kind of time on its critical path, as means over ranks.
-- They may differ by chance as the medians of two starts do, as far as the spread of their
-- steps shows (`question.start_chance_ns`). How much starts really differ, only several runs
-- of a baseline show (`question.start_noise`).
-- One row per measure.
-- Key: measure.
CREATE MACRO question.diff_noise(
    -- The baseline, a run.
    a,
    -- The run that is checked.
    b
) AS TABLE
SELECT
    -- `period`, or a kind of time as in `critical_path.interval`.
    measure,
    -- Steps of the baseline, of all ranks together.
    a_step_count,
    -- Steps of the run.
    b_step_count,
    -- [ns] Median of the baseline.
    a_ns,
    -- [ns] Median of the run.
    b_ns,
    -- [ns] How much longer the run's median is.
    change_ns,
    -- [ns] How much it may differ by chance; NULL for a baseline of fewer than four steps.
    noise_ns,
    -- Probability that it is due to chance, as in `question.diff_period`.
    p_value
FROM (
    WITH
    size AS (
        SELECT
            critical_path.observation_count(a) AS a_count,
            critical_path.observation_count(b) AS b_count
    ),

    -- Steps without that kind of time count as 0.
    listed AS (
        SELECT
            measure,
            a_count,
            b_count,
            list_resize(coalesce(list(time_ns) FILTER (run_id = a), []), a_count, 0)
            AS a_times,
            list_resize(coalesce(list(time_ns) FILTER (run_id = b), []), b_count, 0)
            AS b_times
        FROM critical_path.compared_measure
        CROSS JOIN size
        WHERE run_id IN (a, b)
        GROUP BY measure, a_count, b_count
    )

    SELECT
        measure,
        a_count AS a_step_count,
        b_count AS b_step_count,
        round(list_median(a_times))::BIGINT AS a_ns,
        round(list_median(b_times))::BIGINT AS b_ns,
        b_ns - a_ns AS change_ns,
        CASE
            WHEN a_count >= 4
                THEN round(question.start_chance_ns(a_times, b_times))::BIGINT
        END AS noise_ns,
        question.rank_test_p(a_times, b_times) AS p_value
    FROM listed
    WHERE a_count > 0 AND b_count > 0
)
ORDER BY measure <> 'period', change_ns DESC, measure;
