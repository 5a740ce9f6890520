-- What does each edit match, and how much of that bounds the steps?
-- One row per scenario, edit and method; empty unless scenarios are requested (`tracedb
-- whatif`).
-- Key: scenario, edit, method.
CREATE VIEW question.scenario_hit (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The method, as in `prediction.method`.
    method,
    -- Spans of host time, GPU ops, events, waits or delays that it matches, in all traces.
    match_count,
    -- [ns] Their time, as in `question.scenario_match`.
    matched_ns,
    -- [ns] The part of their time on the critical paths of the baseline's periods; NULL for
    -- waits, because a path runs through what is waited for, for the profiler's overhead,
    -- and without steps.
    path_ns
) AS
WITH
matched AS (
    SELECT scenario, edit, 'span' AS thing, thread_id AS thing_id, position,
        chosen_ns / nullif(span_ns, 0) AS share
    FROM prediction.edited_span
    UNION ALL
    SELECT scenario, edit, 'work', gpu_op_id, 0, 1
    FROM prediction.edited_work
    UNION ALL
    SELECT DISTINCT scenario, edit, kind, waiting_id, position, 1
    FROM prediction.edited_delay
),

on_path AS (
    SELECT scenario, edit, variant_id, sum(time_ns * share) AS path_ns
    FROM matched
    INNER JOIN critical_path.path_thing USING (thing, thing_id, position)
    GROUP BY ALL
)

SELECT
    match.scenario,
    match.edit,
    base.method,
    match_count,
    matched_ns,
    CASE
        WHEN target NOT IN ('wait', 'profiler') AND EXISTS (FROM staging.step)
            THEN coalesce(round(path_ns)::BIGINT, 0)
    END
FROM question.scenario_match AS match
CROSS JOIN prediction.variant AS base
LEFT JOIN on_path
    ON
        match.scenario = on_path.scenario
        AND match.edit = on_path.edit
        AND base.variant_id = on_path.variant_id
WHERE base.scenario = 'baseline' AND is_simulated
ORDER BY match.scenario, match.edit, base.variant_id;
