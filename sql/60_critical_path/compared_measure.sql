-- What steps are compared by: the period, and each kind of time on its critical path.
-- One row per observation and measure that it has.
-- Key: run_id, observation, measure.
CREATE VIEW critical_path.compared_measure (
    -- The run.
    run_id,
    -- The observation, as in `critical_path.compared_observation`.
    observation,
    -- `period`, or a kind of time as in `critical_path.interval`.
    measure,
    -- [ns] The time.
    time_ns
) AS
WITH
part AS (
    SELECT run_id, trace_id, path_id, 'period' AS measure, time_ns
    FROM critical_path.compared_path
    UNION ALL
    SELECT run_id, trace_id, path_id, kind, time_ns
    FROM critical_path.compared_part
)

SELECT run_id, observation, measure, round(sum(time_ns * weight))::BIGINT
FROM part
INNER JOIN critical_path.compared_observation USING (run_id, trace_id, path_id)
GROUP BY run_id, observation, measure;
