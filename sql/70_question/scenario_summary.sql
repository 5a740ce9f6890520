-- What is each scenario worth? Its steps against those of the baseline, in the mean.
-- One row per scenario, method and run; a database at rest has no scenarios
-- (`tracedb whatif`).
-- Key: scenario, method, run_id.
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
    -- [ns] The second less the first.
    change_ns,
    -- [1] That as a part of the first.
    change_share,
    -- [ns] Mean host time without them.
    baseline_host_ns,
    -- [ns] Mean host time with them.
    predicted_host_ns,
    -- [ns] Mean GPU end without them, from the begin of the mark; NULL without GPU work.
    baseline_gpu_end_ns,
    -- [ns] Mean GPU end with them.
    predicted_gpu_end_ns,
    -- [ns] Mean time of a step that no cause explains, and predictions leave out.
    unexplained_ns
) AS
SELECT
    edited.scenario,
    edited.method,
    edited.run_id,
    count(*),
    round(avg(baseline.predicted_ns))::BIGINT AS base_ns,
    round(avg(edited.predicted_ns))::BIGINT AS own_ns,
    own_ns - base_ns,
    (own_ns - base_ns) / nullif(base_ns, 0),
    round(avg(baseline.predicted_host_ns))::BIGINT,
    round(avg(edited.predicted_host_ns))::BIGINT,
    round(avg(baseline.predicted_gpu_end_ns))::BIGINT,
    round(avg(edited.predicted_gpu_end_ns))::BIGINT,
    round(avg(baseline.unexplained_ns))::BIGINT
FROM critical_path.step_time AS edited
INNER JOIN critical_path.step_time AS baseline USING (method, step_id)
INNER JOIN prediction.variant AS variant
    ON edited.scenario = variant.scenario AND edited.method = variant.method
WHERE baseline.scenario = 'baseline' AND edited.scenario <> 'baseline'
GROUP BY variant_id, edited.scenario, edited.method, edited.run_id
ORDER BY variant_id, edited.run_id;
