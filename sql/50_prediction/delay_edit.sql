-- What scenarios change of delays: the product of the factors and the sum of what is added.
-- One row per variant and delay that it changes.
-- Key: variant_id, kind, waiting_id, position.
CREATE VIEW prediction.delay_edit (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Kind of the delay, as in `prediction.edited_delay`.
    kind,
    -- The thread, or the GPU work, that is delayed.
    waiting_id,
    -- Position of the wait on the thread; 0 of GPU work.
    position,
    -- What it is multiplied by, where it is above 0: what comes early comes no later.
    factor,
    -- [ns] What is then added to it.
    add_ns
) AS
SELECT
    variant_id,
    kind,
    waiting_id,
    delay.position,
    product(factor),
    sum(add_ns)::BIGINT
FROM prediction.edited_delay AS delay
INNER JOIN prediction.scenario_edit AS edit
    ON delay.scenario = edit.scenario AND delay.edit = edit.position
INNER JOIN prediction.variant AS variant ON delay.scenario = variant.scenario
GROUP BY variant_id, kind, waiting_id, delay.position;
