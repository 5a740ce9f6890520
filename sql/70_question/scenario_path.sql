-- What bounds the steps in each scenario, and what has taken over? The time on the critical
-- paths of the periods of whole steps (`staging.whole_step`), by what it was spent on,
-- compared with the baseline.
-- One row per scenario, method, run, kind of time and name; empty unless scenarios are
-- requested (`tracedb whatif`).
-- Key: scenario, method, run_id, kind, name.
-- Counts: critical_path.interval, critical_path.path, critical_path.path_gain.
CREATE VIEW question.scenario_path (
    -- The scenario.
    scenario,
    -- The method, as in `prediction.method`.
    method,
    -- The run.
    run_id,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- Name of the op, the call or the GPU work; empty for gaps between ops.
    name,
    -- [ns] Its time on the path without the scenario's edits, mean of the steps.
    baseline_ns,
    -- [ns] Its time on the path with them.
    predicted_ns,
    -- [ns] The second minus the first.
    change_ns,
    -- [ns] Time that the edits remove from it on the path without them, less what they insert
    -- there. Its sum is `expected_ns` in `question.scenario_saving`.
    expected_ns,
    -- [ns] Its time that comes onto the path, less what leaves it otherwise: `change_ns` and
    -- `expected_ns` together. The sum is what the steps lose of the expected gain.
    shifted_ns
) AS
WITH
spent AS (
    SELECT
        variant_id, interval.run_id, interval.kind, coalesce(node.name, '') AS name,
        sum(interval.end_ns - interval.start_ns) AS time_ns
    FROM critical_path.interval AS interval
    LEFT JOIN graph.node AS node ON interval.node_id = node.node_id
    SEMI JOIN staging.whole_step USING (step_id)
    WHERE scope = 'period' AND variant_id > 0
    GROUP BY ALL
),

path AS (
    SELECT variant_id, run_id, count(*) AS path_count
    FROM critical_path.path
    SEMI JOIN staging.whole_step USING (step_id)
    WHERE scope = 'period'
    GROUP BY ALL
),

pair AS (
    SELECT edited.variant_id, edited.scenario, edited.method, baseline.variant_id AS base_id
    FROM prediction.variant AS edited
    INNER JOIN prediction.variant AS baseline USING (method)
    WHERE edited.scenario <> 'baseline' AND baseline.scenario = 'baseline'
),

part AS (
    SELECT pair.*, run_id, kind, name, 0 AS base_ns, time_ns AS own_ns, 0 AS gain_ns
    FROM pair
    INNER JOIN spent USING (variant_id)
    UNION ALL
    SELECT pair.*, run_id, kind, name, time_ns, 0, 0
    FROM pair
    INNER JOIN spent ON base_id = spent.variant_id
    UNION ALL
    SELECT pair.*, gain.run_id, interval.kind, coalesce(node.name, ''), 0, 0, gain_ns
    FROM pair
    INNER JOIN (FROM critical_path.path_gain SEMI JOIN staging.whole_step USING (step_id)) AS gain
        USING (variant_id)
    INNER JOIN critical_path.interval AS interval
        ON
            base_id = interval.variant_id
            AND gain.path_id = interval.path_id
            AND gain.start_ns = interval.start_ns
    LEFT JOIN graph.node AS node ON interval.node_id = node.node_id
    WHERE scope = 'period'
)

SELECT
    scenario,
    method,
    part.run_id,
    kind,
    name,
    round(sum(base_ns) / max(base.path_count))::BIGINT AS baseline_ns,
    round(coalesce(sum(own_ns) / max(own.path_count), 0))::BIGINT AS predicted_ns,
    predicted_ns - baseline_ns AS change_ns,
    round(sum(gain_ns) / max(base.path_count))::BIGINT AS expected_ns,
    change_ns + expected_ns
FROM part
INNER JOIN path AS base ON base_id = base.variant_id AND part.run_id = base.run_id
LEFT JOIN path AS own
    ON part.variant_id = own.variant_id AND part.run_id = own.run_id
GROUP BY part.variant_id, scenario, method, part.run_id, kind, name
ORDER BY part.variant_id, part.run_id, predicted_ns DESC, baseline_ns DESC, kind, name;
