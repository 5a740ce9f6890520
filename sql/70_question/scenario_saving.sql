-- How much of what a scenario removes from the critical paths do the steps gain, and how
-- much is lost to other paths that then bound them?
-- One row per scenario, method and run; empty unless scenarios are requested (`tracedb
-- whatif`).
-- Key: scenario, method, run_id.
-- Counts: critical_path.path_gain, question.scenario_effect.
CREATE VIEW question.scenario_saving (
    -- The scenario.
    scenario,
    -- The method, as in `prediction.method`.
    method,
    -- The run.
    run_id,
    -- [ns] Mean time per step that the edits remove from the baseline's critical paths of
    -- the periods, less what they insert there: the gain if nothing else took over.
    expected_ns,
    -- [ns] Gain of the mean period.
    saved_ns,
    -- [ns] The first minus the second, if the first is larger.
    lost_ns
) AS
WITH
gain AS (
    SELECT variant_id, run_id, sum(gain_ns) AS gain_ns
    FROM critical_path.path_gain
    SEMI JOIN staging.whole_step USING (step_id)
    GROUP BY variant_id, run_id
),

summary AS (
    SELECT
        scenario,
        method,
        run_id,
        count(*) AS step_count,
        round(avg(predicted_ns))::BIGINT - round(avg(baseline_ns))::BIGINT AS change_ns
    FROM question.scenario_effect
    INNER JOIN staging.trace USING (trace_id)
    GROUP BY scenario, method, run_id
)

SELECT
    summary.scenario,
    summary.method,
    summary.run_id,
    round(coalesce(gain_ns, 0) / step_count)::BIGINT AS expected_ns,
    -change_ns AS saved_ns,
    greatest(expected_ns - saved_ns, 0)
FROM summary
INNER JOIN prediction.variant USING (scenario, method)
LEFT JOIN gain ON variant.variant_id = gain.variant_id AND summary.run_id = gain.run_id
ORDER BY variant.variant_id, summary.run_id;
