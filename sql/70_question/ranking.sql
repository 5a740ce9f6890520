-- What is worth changing? What the steps gain in the mean if an op, GPU work, a module, an
-- overhead type took no time, half of it, or its roofline's, or were not waited for.
-- One row per thing, method and run; a database at rest has no scenarios (`tracedb whatif`).
-- Key: target, type, name, method, run_id.
CREATE VIEW question.ranking (
    -- What is changed, as in `prediction.scenario_edit`.
    target,
    -- Which of these; empty: all.
    type,
    -- Name of the top-level op or the GPU work, or path of the module; empty without one.
    name,
    -- The method, as in `prediction.method`.
    method,
    -- The run.
    run_id,
    -- [ns] Mean period as predicted without a change.
    baseline_ns,
    -- [ns] What is gained of it if that took no time, or were not waited for.
    gain_ns,
    -- [1] That as a part of the mean period.
    gain_share,
    -- [ns] What is gained if it took half its time; NULL of waits.
    half_gain_ns,
    -- [ns] What is gained if GPU work took as long as by its roofline; NULL if not known.
    roofline_gain_ns
) AS
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
FROM question.scenario_summary
INNER JOIN prediction.scenario_edit USING (scenario)
GROUP BY ALL
ORDER BY gain DESC, target, edit_type, edit_name, method, run_id;
