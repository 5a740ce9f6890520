-- What is simulated now: each rung of prediction, for the baseline and for each scenario.
-- A database at rest holds the stored rungs of the baseline; others are simulated beside it
-- (`tracedb predict --rung`, `--scenario`), where the variables `rungs` and `edits` say
-- which.
-- One row per rung and scenario.
-- Key: variant_id.
CREATE VIEW prediction.variant (
    -- The number that relations of the simulation have for it: also the order.
    variant_id,
    -- The scenario; `baseline` edits nothing.
    scenario,
    -- The rung, as in `prediction.rung`.
    rung,
    -- Where host time is learnt from, as in `prediction.rung`.
    host_from,
    -- Whether kernel times are from models.
    models_kernels,
    -- Whether the graph is simulated.
    is_simulated
) AS
SELECT
    (100 * scenario_position + position)::INTEGER,
    scenario,
    rung,
    host_from,
    models_kernels,
    is_simulated
FROM prediction.rung
CROSS JOIN (
    SELECT 'baseline' AS scenario, 0 AS scenario_position
    UNION ALL
    SELECT DISTINCT scenario, scenario_position FROM prediction.scenario_edit
)
WHERE
    CASE
        WHEN getvariable('rungs') IS NULL THEN is_stored
        ELSE list_contains(getvariable('rungs')::VARCHAR[], rung)
    END
    AND (is_simulated OR scenario_position = 0);
