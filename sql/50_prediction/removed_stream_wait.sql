-- Waits of GPU work for work on other streams that scenarios remove. With the wait for an
-- event goes what its stream had itself been made to wait for, unless another wait remains
-- that holds it up, too (`prediction.removed_mark`).
-- Without edits it is empty.
-- One row per scenario, waiting GPU op and awaited GPU op.
-- Key: scenario, gpu_op_id, awaited_gpu_op_id.
CREATE TABLE prediction.removed_stream_wait (
    -- The scenario.
    scenario,
    -- The trace.
    trace_id,
    -- The GPU work that waited.
    gpu_op_id,
    -- The GPU work that it waited for.
    awaited_gpu_op_id
) AS
WITH
chosen AS (
    SELECT DISTINCT scenario, trace_id, gpu_op_id, awaited_gpu_op_id
    FROM prediction.chosen_wait
    INNER JOIN graph.stream_position USING (gpu_op_id)
    WHERE target = 'wait'
),

marked AS (
    SELECT
        call_id, wait.trace_id, held_gpu_op_id AS gpu_op_id,
        mark.gpu_op_id AS awaited_gpu_op_id
    FROM graph.recorded_wait AS wait
    INNER JOIN graph.recorded_mark AS mark USING (call_id)
    WHERE held_gpu_op_id IS NOT NULL
)

-- What was not recorded, or is awaited only because it was passed on.
SELECT scenario, trace_id, chosen.gpu_op_id, awaited_gpu_op_id
FROM chosen
ANTI JOIN graph.recorded_wait AS wait
    ON chosen.gpu_op_id = held_gpu_op_id AND awaited_gpu_op_id = wait.gpu_op_id
UNION
-- What no call waits for any more.
SELECT every.scenario, any_value(marked.trace_id), marked.gpu_op_id, awaited_gpu_op_id
FROM (SELECT DISTINCT scenario FROM prediction.removed_mark) AS every
CROSS JOIN marked
LEFT JOIN prediction.removed_mark AS removed
    ON
        every.scenario = removed.scenario
        AND marked.call_id = removed.call_id
        AND awaited_gpu_op_id = removed.gpu_op_id
GROUP BY every.scenario, marked.gpu_op_id, awaited_gpu_op_id
HAVING bool_and(removed.call_id IS NOT NULL);
