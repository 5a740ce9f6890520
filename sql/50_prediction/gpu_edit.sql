-- What scenarios change of the time of GPU work: the product of the factors and the sum of
-- what is added.
-- One row per variant and GPU op that it changes.
-- Key: variant_id, gpu_op_id.
CREATE VIEW prediction.gpu_edit (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU op.
    gpu_op_id,
    -- What its time is multiplied by.
    factor,
    -- [ns] What is then added to it.
    add_ns
) AS
SELECT variant_id, gpu_op_id, product(factor), sum(add_ns)::BIGINT
FROM prediction.edited_work
INNER JOIN prediction.variant USING (scenario)
GROUP BY variant_id, gpu_op_id;
