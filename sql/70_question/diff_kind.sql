-- Which kinds of time make the steps of another run longer? The time on their critical
-- paths by kind, mean over steps. The changes add up to the one in `question.diff_period`,
-- up to rounding.
-- One row per kind of time.
-- Key: kind.
CREATE MACRO question.diff_kind(
    -- The first run.
    a,
    -- The second run.
    b
) AS TABLE
SELECT
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- [ns] Mean time per step in the first run.
    a_ns,
    -- [ns] Mean time per step in the second run.
    b_ns,
    -- [ns] How much more the second run has.
    change_ns,
    -- Probability that it is due to chance, as in `question.diff_period`.
    p_value,
    -- Whether that is below 5 %, and the medians differ by more than those of two starts
    -- may (`question.start_chance_ns`).
    is_significant
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
            measure AS kind,
            list_resize(
                coalesce(list(time_ns ORDER BY time_ns) FILTER (run_id = a), []), a_count, 0
            ) AS a_times,
            list_resize(
                coalesce(list(time_ns ORDER BY time_ns) FILTER (run_id = b), []), b_count, 0
            ) AS b_times
        FROM critical_path.compared_measure
        CROSS JOIN size
        WHERE run_id IN (a, b) AND measure <> 'period'
        GROUP BY measure, a_count, b_count
    )

    SELECT
        kind,
        round(list_avg(a_times))::BIGINT AS a_ns,
        round(list_avg(b_times))::BIGINT AS b_ns,
        b_ns - a_ns AS change_ns,
        question.rank_test_p(a_times, b_times) AS p_value,
        p_value < 0.05
        AND abs(list_median(b_times) - list_median(a_times))
        > question.start_chance_ns(a_times, b_times) AS is_significant
    FROM listed
)
ORDER BY abs(change_ns) DESC, kind;
