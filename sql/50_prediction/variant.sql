-- Variants of outcomes: 0 is measured; the others are simulated, one per prediction method
-- for the baseline and for each scenario. A database stores those of the baseline for the
-- stored methods. Others are simulated next to it (`tracedb predict --method`,
-- `--scenario`), as given by the variables `methods` and `edits`. While these are computed,
-- the variants in the variable `stored` are excluded, because they already exist.
-- One row per method and scenario, and one for measurements.
-- Key: variant_id.
CREATE VIEW prediction.variant (
    -- The number used by relations, which also gives the order.
    variant_id,
    -- The scenario; `baseline` has no edits.
    scenario,
    -- The method, as in `prediction.method`; `measured`.
    method,
    -- Source of host times, as in `prediction.method`.
    host_from,
    -- Whether kernel times come from models.
    models_kernels,
    -- Whether the graph is simulated.
    is_simulated,
    -- Whether it is included by default next to measurements in the same relation, as in
    -- `critical_path.interval`: methods and scenarios that were requested.
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
