-- What is each scenario worth? Its mean step compared with that of the baseline, and the
-- bands that should contain four of five steps. Each step is simulated twice, with the
-- edits and without; both simulations are assumed to be wrong by the same factor, measured
-- divided by baseline. So an error common to both does not widen the band of the change. What
-- work on another GPU, or of another type, batch size or number of ranks, may be off by widens
-- both, part by part (`prediction.band_part`), by squares.
-- One row per scenario, method and run; empty unless scenarios are requested (`tracedb
-- whatif`).
-- Key: scenario, method, run_id.
-- Counts: critical_path.step_time.
CREATE VIEW question.scenario_summary (
    -- The scenario.
    scenario,
    -- The method, as in `prediction.method`.
    method,
    -- The run.
    run_id,
    -- Steps of all ranks of the run.
    step_count,
    -- [ns] Mean period without the scenario's edits, as in `critical_path.step_time`.
    baseline_ns,
    -- [ns] Mean period with them.
    predicted_ns,
    -- [ns] The second minus the first.
    change_ns,
    -- [1] That as a share of the first.
    change_share,
    -- [ns] 10th percentile of a step's period with them; NULL for fewer than three steps.
    low_ns,
    -- [ns] 90th percentile.
    high_ns,
    -- [ns] 10th percentile of a step's change.
    change_low_ns,
    -- [ns] 90th percentile.
    change_high_ns,
    -- [ns] Mean host time without them.
    baseline_host_ns,
    -- [ns] Mean host time with them.
    predicted_host_ns,
    -- [ns] Mean GPU end without them, from the start of the mark; NULL without GPU work.
    baseline_gpu_end_ns,
    -- [ns] Mean GPU end with them.
    predicted_gpu_end_ns,
    -- [ns] Mean time of a step without a cause, which predictions exclude.
    unexplained_ns
) AS
WITH
pair AS (
    SELECT
        variant_id,
        edited.scenario,
        edited.method,
        edited.run_id,
        step_id,
        baseline.predicted_ns AS baseline_ns,
        edited.predicted_ns,
        edited.predicted_ns - baseline.predicted_ns AS change_ns,
        baseline.predicted_host_ns AS baseline_host_ns,
        edited.predicted_host_ns,
        baseline.predicted_gpu_end_ns AS baseline_gpu_end_ns,
        edited.predicted_gpu_end_ns,
        baseline.unexplained_ns,
        baseline.measured_ns / nullif(baseline.predicted_ns, 0) AS off_factor
    FROM critical_path.step_time AS edited
    INNER JOIN critical_path.step_time AS baseline USING (method, step_id)
    INNER JOIN prediction.variant AS variant
        ON edited.scenario = variant.scenario AND edited.method = variant.method
    WHERE baseline.scenario = 'baseline' AND edited.scenario <> 'baseline'
),

-- Deviation of each step from the mean: its period and its change, both corrected like the
-- baseline.
distant AS (
    SELECT
        *,
        predicted_ns * off_factor - avg(predicted_ns) OVER of_run AS distance_ns,
        change_ns * off_factor - avg(change_ns) OVER of_run AS change_distance_ns
    FROM pair
    WINDOW of_run AS (PARTITION BY variant_id, run_id)
),

mean AS (
    SELECT
        variant_id,
        scenario,
        method,
        run_id,
        count(*) AS step_count,
        round(avg(baseline_ns))::BIGINT AS base_ns,
        round(avg(predicted_ns))::BIGINT AS own_ns,
        round(avg(baseline_host_ns))::BIGINT AS base_host_ns,
        round(avg(predicted_host_ns))::BIGINT AS own_host_ns,
        round(avg(baseline_gpu_end_ns))::BIGINT AS base_gpu_end_ns,
        round(avg(predicted_gpu_end_ns))::BIGINT AS own_gpu_end_ns,
        round(avg(unexplained_ns))::BIGINT AS left_ns,
        CASE WHEN count(off_factor) >= 3 THEN
            round(prediction.band_reach(sqrt(avg(distance_ns ** 2)), count(off_factor)))
        END::BIGINT AS reach_ns,
        CASE WHEN count(off_factor) >= 3 THEN
            round(
                prediction.band_reach(sqrt(avg(change_distance_ns ** 2)), count(off_factor))
            )
        END::BIGINT AS change_reach_ns
    FROM distant
    GROUP BY variant_id, scenario, method, run_id
),

-- How much longer the mean period of the same steps is, or shorter, if a part takes one end of
-- its band.
bounded AS (
    SELECT
        scenario,
        method,
        run_id,
        bound,
        round(avg(bound.predicted_ns)) - round(avg(pair.predicted_ns)) AS longer_ns
    FROM pair
    INNER JOIN reference.scenario_bound AS bound USING (scenario, method, step_id)
    GROUP BY scenario, method, run_id, bound
),

part AS (
    SELECT
        scenario,
        method,
        run_id,
        greatest(max(-longer_ns), 0) AS shorter_ns,
        greatest(max(longer_ns), 0) AS longer_ns
    FROM bounded
    GROUP BY scenario, method, run_id, regexp_extract(bound, '\d')
),

doubt AS (
    SELECT
        scenario,
        method,
        run_id,
        sum(shorter_ns ** 2) AS shorter_square,
        sum(longer_ns ** 2) AS longer_square
    FROM part
    GROUP BY scenario, method, run_id
),

reach AS (
    SELECT
        mean.*,
        round(sqrt(reach_ns ** 2 + coalesce(shorter_square, 0)))::BIGINT AS below_ns,
        round(sqrt(reach_ns ** 2 + coalesce(longer_square, 0)))::BIGINT AS above_ns,
        round(sqrt(change_reach_ns ** 2 + coalesce(shorter_square, 0)))::BIGINT
        AS change_below_ns,
        round(sqrt(change_reach_ns ** 2 + coalesce(longer_square, 0)))::BIGINT
        AS change_above_ns
    FROM mean
    LEFT JOIN doubt USING (scenario, method, run_id)
)

SELECT
    scenario,
    method,
    run_id,
    step_count,
    base_ns,
    own_ns,
    own_ns - base_ns,
    (own_ns - base_ns) / nullif(base_ns, 0),
    CASE WHEN reach_ns IS NOT NULL THEN greatest(own_ns - below_ns, 0) END,
    own_ns + above_ns,
    own_ns - base_ns - change_below_ns,
    own_ns - base_ns + change_above_ns,
    base_host_ns,
    own_host_ns,
    base_gpu_end_ns,
    own_gpu_end_ns,
    left_ns
FROM reach
ORDER BY variant_id, run_id;
