-- What is worth changing? The mean gain per step if an op, GPU work, a module or an
-- overhead type took no time, half its time or its roofline time, or if a wait disappeared.
-- One row per candidate, method and run; empty unless scenarios are requested (`tracedb
-- whatif`).
-- Key: target, type, name, method, run_id.
-- Counts: question.scenario_effect.
CREATE VIEW question.ranking (
    -- What is changed, as in `prediction.scenario_edit`.
    target,
    -- The type; empty: all.
    type,
    -- Name of the top-level op or the GPU work, or class of the modules, as in
    -- `question.module_class`, with all submodules; empty without one.
    name,
    -- The method, as in `prediction.method`.
    method,
    -- The run.
    run_id,
    -- [ns] Predicted mean period without a change.
    baseline_ns,
    -- [ns] Gain if it took no time, or if the wait disappeared.
    gain_ns,
    -- [1] That as a share of the mean period.
    gain_share,
    -- [ns] Gain if it took half its time; NULL for waits.
    half_gain_ns,
    -- [ns] Gain if GPU work took its roofline time; NULL if unknown.
    roofline_gain_ns
) AS
WITH
summed AS (
    SELECT
        scenario,
        method,
        run_id,
        round(avg(baseline_ns))::BIGINT AS baseline_ns,
        round(avg(predicted_ns))::BIGINT - round(avg(baseline_ns))::BIGINT AS change_ns
    FROM question.scenario_effect
    INNER JOIN staging.trace USING (trace_id)
    GROUP BY scenario, method, run_id
)

SELECT
    target,
    coalesce(type, '') AS edit_type,
    coalesce(name, module, '') AS edit_name,
    method,
    run_id,
    any_value(baseline_ns) AS base_ns,
    max(-change_ns) FILTER (target = 'wait' OR factor = 0) AS gain,
    gain / nullif(base_ns, 0),
    max(-change_ns) FILTER (target <> 'wait' AND factor = 0.5),
    max(-change_ns) FILTER (target <> 'wait' AND factor NOT IN (0, 0.5))
FROM summed
INNER JOIN prediction.scenario_edit USING (scenario)
GROUP BY ALL
ORDER BY gain DESC, target, edit_type, edit_name, method, run_id;
