-- Is a run slower than the differences between other runs explain? Each of these is another
-- start of the same program: its median over steps differs from that of the next start by
-- more than its own steps show. A new start may differ from their median by chance by three
-- standard deviations; one in 20 exceeds that with three other runs, one in 50 with five,
-- one in 130 with ten.
-- One row per measure.
-- Key: measure.
CREATE MACRO question.start_noise(
    -- The run that is checked; all others are the baseline.
    b
) AS TABLE
SELECT
    -- `period`, or a kind of time as in `critical_path.interval`.
    measure,
    -- Runs of the baseline.
    start_count,
    -- [ns] Median of the baseline's medians.
    a_ns,
    -- [ns] Median of the run.
    b_ns,
    -- [ns] How much longer the run's median is.
    change_ns,
    -- [ns] How much it may differ by chance; NULL for a baseline of fewer than three runs.
    noise_ns
FROM (
    WITH
    run AS (
        SELECT run_id, count(DISTINCT observation) AS step_count
        FROM critical_path.compared_observation
        GROUP BY run_id
    ),

    -- Steps without that kind of time count as 0.
    start AS (
        SELECT
            run_id,
            measure,
            list_median(
                list_resize(
                    coalesce(list(time_ns) FILTER (time_ns IS NOT NULL), []),
                    step_count,
                    0
                )
            ) AS median_ns
        FROM run
        CROSS JOIN (SELECT DISTINCT measure FROM critical_path.compared_measure)
        LEFT JOIN critical_path.compared_measure USING (run_id, measure)
        GROUP BY run_id, measure, step_count
    )

    SELECT
        measure,
        count(*) FILTER (run_id <> b) AS start_count,
        round(median(median_ns) FILTER (run_id <> b))::BIGINT AS a_ns,
        round(any_value(median_ns) FILTER (run_id = b))::BIGINT AS b_ns,
        b_ns - a_ns AS change_ns,
        CASE
            WHEN start_count >= 3
                THEN round(
                    3 * stddev_samp(median_ns) FILTER (run_id <> b)
                    * sqrt(1 + 1 / start_count)
                )::BIGINT
        END AS noise_ns
    FROM start
    GROUP BY measure
    HAVING start_count > 0 AND b_ns IS NOT NULL
)
ORDER BY measure <> 'period', change_ns DESC, measure;
