-- What outcomes are of: 0, what was measured, and what is simulated now: each method of
-- prediction, for the baseline and for each scenario. A database at rest holds the stored
-- methods of the baseline; others are simulated beside it (`tracedb predict --method`,
-- `--scenario`), where the variables `methods` and `edits` say which. While they are
-- computed there, those that the variable `stored` lists are left out: they are there
-- already.
-- One row per method and scenario, and one of what was measured.
-- Key: variant_id.
CREATE VIEW prediction.variant (
    -- The number that relations have for it: also the order.
    variant_id,
    -- The scenario; `baseline` edits nothing.
    scenario,
    -- The method, as in `prediction.method`; `measured`.
    method,
    -- Where host time is learnt from, as in `prediction.method`.
    host_from,
    -- Whether kernel times are from models.
    models_kernels,
    -- Whether the graph is simulated.
    is_simulated,
    -- Whether it is told beside what was measured where both are in one relation, as in
    -- `critical_path.interval`: methods and scenarios that were asked for.
    is_asked
) AS
WITH
known AS (
    SELECT
        0 AS variant_id,
        'baseline' AS scenario,
        'measured' AS method,
        NULL AS host_from,
        false AS models_kernels,
        false AS is_simulated,
        true AS is_asked
    UNION ALL
    SELECT
        (100 * scenario_position + position)::INTEGER,
        scenario,
        method,
        host_from,
        models_kernels,
        is_simulated,
        getvariable('methods') IS NOT NULL
    FROM prediction.method
    CROSS JOIN (
        SELECT 'baseline' AS scenario, 0 AS scenario_position
        UNION ALL
        SELECT DISTINCT scenario, scenario_position FROM prediction.scenario_edit
    )
    WHERE
        CASE
            WHEN getvariable('methods') IS NULL THEN is_stored
            ELSE list_contains(getvariable('methods')::VARCHAR[], method)
        END
        AND (is_simulated OR scenario_position = 0)
)

SELECT *
FROM known
WHERE
    getvariable('stored') IS NULL
    OR NOT list_contains(getvariable('stored')::INTEGER[], variant_id);
