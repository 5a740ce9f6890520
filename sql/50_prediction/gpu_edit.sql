-- What scenarios change of the time of GPU work, found by the kind and the name of the work
-- or the name of the op that launched it: the product of the factors and the sum of what
-- is added. Collectives have a kind of their own.
-- One row per variant and piece of GPU work that it changes.
-- Key: variant_id, kernel_id.
CREATE VIEW prediction.gpu_edit (
    -- Rung and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU work.
    kernel_id,
    -- What its time is multiplied by.
    factor,
    -- [ns] What is then added to it.
    add_ns
) AS
SELECT variant_id, kernel_id, product(factor), sum(add_ns)::BIGINT
FROM staging.kernel AS work
LEFT JOIN staging.op AS op ON work.op_id = op.op_id
INNER JOIN prediction.scenario_edit AS edit
    ON
        edit.target = 'gpu'
        AND (
            edit.type IS NULL
            OR edit.type = CASE WHEN is_collective THEN 'collective' ELSE work.kind END
        )
        AND (
            edit.name IS NULL
            OR regexp_full_match(work.name, edit.name)
            OR regexp_full_match(op.name, edit.name)
        )
INNER JOIN prediction.variant USING (scenario)
GROUP BY variant_id, kernel_id;
