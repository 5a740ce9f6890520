-- How collectives that scenarios move lie on nodes, as recorded and then. Among other ranks, a
-- group within a node grows to the GPUs that such a node has, then over nodes; a group over
-- nodes keeps its ranks per node.
-- One row per scenario and collective that it moves.
-- Key: scenario, gpu_op_id.
CREATE VIEW prediction.collective_change (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- The op that launched it.
    op_id,
    -- The change, as in `prediction.work_change`.
    change,
    -- Ranks of its group.
    ranks,
    -- Ranks of the group then.
    to_ranks,
    -- Ranks per node then.
    to_ranks_per_node,
    -- Whether messages leave a node.
    leaves_node,
    -- Whether they do so then.
    leaves_node_then
) AS
SELECT
    scenario,
    gpu_op_id,
    op_id,
    change,
    message.ranks,
    coalesce(work.to_ranks, message.ranks) AS ranks_then,
    CASE
        WHEN work.to_ranks IS NULL THEN message.ranks_per_node
        ELSE least(work.to_ranks, coalesce(
            work.ranks_per_node,
            CASE
                WHEN message.ranks_per_node < message.ranks THEN message.ranks_per_node
                ELSE greatest(message.ranks, devices_per_node)
            END
        ))
    END AS per_node_then,
    message.ranks_per_node < message.ranks,
    per_node_then < ranks_then
FROM prediction.work_change AS work
INNER JOIN (
    SELECT op_id, max(ranks) AS ranks, min(ranks_per_node) AS ranks_per_node
    FROM prediction.op_problem
    WHERE family = 'collective'
    GROUP BY op_id
) AS message
    USING (op_id)
INNER JOIN staging.gpu_op AS gpu_op USING (gpu_op_id)
LEFT JOIN prediction.kernel_device AS device
    ON gpu_op.trace_id = device.trace_id AND gpu_op.device = device.device
LEFT JOIN prediction.hardware AS hardware
    ON coalesce(to_gpu, device.hardware) = hardware.hardware;
