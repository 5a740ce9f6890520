-- In which range should each step lie, four times out of five? The method's errors on steps
-- elsewhere give the expected error here (jackknife): the root mean square of the
-- logarithms of measured divided by predicted (`prediction.band_reach`). Elsewhere is where
-- the method learns: the other ranks of the run, the other runs; for all other methods, the
-- trace's other steps.
-- One row per method and step for which there are at least two others.
-- Key: method, step_id.
CREATE VIEW question.prediction_band (
    -- The method, as in `prediction.method`.
    method,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Measured period, as in `critical_path.step_time`.
    measured_ns,
    -- [ns] Predicted period.
    predicted_ns,
    -- Steps elsewhere.
    other_count,
    -- [ns] 10th percentile of the expected period.
    low_ns,
    -- [ns] 90th percentile.
    high_ns,
    -- Whether the measured time lies inside.
    is_inside
) AS
WITH
error AS (
    SELECT
        step_time.*,
        ln(measured_ns / predicted_ns) AS residual,
        CASE host_from
            WHEN 'other_ranks' THEN run_id
            WHEN 'other_runs' THEN 0
            WHEN 'library' THEN 0
            ELSE trace_id
        END AS pool_id,
        coalesce(
            prediction.left_out_id(host_from, run_id, trace_id, step_id), step_id
        ) AS excluded_id
    FROM critical_path.step_time
    INNER JOIN prediction.method USING (method)
    WHERE
        scenario = 'baseline'
        AND predicted_ns > 0
        AND measured_ns > 0
        AND prediction.is_judged(host_from, is_simulated, as_measured_share)
),

judged AS (
    SELECT
        *,
        count(*) OVER others AS other_count,
        prediction.band_reach(sqrt(avg(residual ** 2) OVER others), other_count) AS reach
    FROM error
    WINDOW others AS (
        PARTITION BY method, pool_id ORDER BY excluded_id
        RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP
    )
    QUALIFY other_count >= 2
)

SELECT
    method,
    trace_id,
    rank,
    step_id,
    step,
    measured_ns,
    predicted_ns,
    other_count,
    round(predicted_ns * exp(-reach))::BIGINT AS low_ns,
    round(predicted_ns * exp(reach))::BIGINT AS high_ns,
    measured_ns BETWEEN low_ns AND high_ns
FROM judged
INNER JOIN staging.trace AS trace USING (trace_id)
INNER JOIN prediction.method USING (method)
ORDER BY position, step_id;
