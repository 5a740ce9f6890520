-- Changes of delays by scenarios: the product of the factors and the sum of the additions.
-- One row per variant and delay that it changes.
-- Key: variant_id, kind, waiting_id, position, awaited_gpu_op_id.
CREATE VIEW prediction.delay_edit (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Kind of the delay, as in `prediction.edited_delay`.
    kind,
    -- The delayed thread or GPU work.
    waiting_id,
    -- Position of the wait on the thread; 0 for GPU work.
    position,
    -- For a delay after work on another stream, that work; otherwise NULL.
    awaited_gpu_op_id,
    -- The factor, if the delay is above 0: what comes early does not come later.
    factor,
    -- [ns] What is added after that.
    add_ns
) AS
SELECT
    variant_id,
    kind,
    waiting_id,
    delay.position,
    awaited_gpu_op_id,
    product(factor),
    sum(add_ns)::BIGINT
FROM prediction.edited_delay AS delay
INNER JOIN prediction.scenario_edit AS edit
    ON delay.scenario = edit.scenario AND delay.edit = edit.position
INNER JOIN prediction.variant AS variant ON delay.scenario = variant.scenario
GROUP BY variant_id, kind, waiting_id, delay.position, awaited_gpu_op_id;
