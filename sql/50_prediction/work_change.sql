-- GPU work that scenarios move: to another GPU, type of elements, batch size or number of
-- ranks, or several of these. Of the collectives, those with a known message between more
-- than a sender and a receiver get other ranks.
-- One row per scenario and GPU op that it moves.
-- Key: scenario, gpu_op_id.
CREATE VIEW prediction.work_change (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- The trace.
    trace_id,
    -- The op that launched it; NULL outside of ops.
    op_id,
    -- The GPU that it moves to, a row of `prediction.hardware`; NULL: unchanged.
    to_gpu,
    -- Type of floating-point elements, `fp32`, `tf32`, `bf16`, `fp16` or `fp8`; NULL:
    -- unchanged.
    to_dtype,
    -- New batch size of its tensors; NULL: unchanged.
    to_batch,
    -- The recorded batch size given in the edit; 0: none.
    from_batch,
    -- New number of ranks of its group; NULL: unchanged.
    to_ranks,
    -- How many of them a node has; NULL if not given.
    ranks_per_node,
    -- What messages of a GPU reach between nodes, in GB/s; NULL if not given.
    network,
    -- All of these changes as one text: `gpu=H200 dtype=bf16`.
    change,
    -- What is given about the recorded work, likewise: `network=25`; otherwise empty.
    recorded,
    -- Different values given by edits for one of these: at most one is allowed.
    value_count
) AS
SELECT
    work.scenario,
    gpu_op_id,
    any_value(work.trace_id),
    any_value(op_id),
    min(edit.to_gpu) AS gpu,
    min(edit.to_dtype) AS dtype,
    min(edit.to_batch) AS batch,
    coalesce(min(edit.from_batch), 0) AS batch_before,
    min(edit.to_ranks) FILTER (is_of_group) AS ranks,
    min(edit.ranks_per_node) FILTER (is_of_group) AS per_node,
    min(edit.network) FILTER (is_of_group) AS between_nodes,
    concat_ws(
        ' ',
        'gpu=' || gpu,
        'dtype=' || dtype,
        'batch=' || batch,
        CASE WHEN batch_before > 0 THEN 'from_batch=' || batch_before END,
        'ranks=' || ranks,
        'ranks_per_node=' || per_node,
        'network=' || between_nodes
    ),
    coalesce('network=' || between_nodes, ''),
    greatest(
        count(DISTINCT edit.to_gpu),
        count(DISTINCT edit.to_dtype),
        count(DISTINCT {'to': edit.to_batch, 'from': edit.from_batch})
        FILTER (edit.to_batch IS NOT NULL),
        count(DISTINCT {
            'to': edit.to_ranks, 'per_node': edit.ranks_per_node, 'network': edit.network
        }) FILTER (edit.to_ranks IS NOT NULL)
    )
FROM prediction.chosen_work AS work
INNER JOIN prediction.scenario_edit AS edit
    ON work.scenario = edit.scenario AND work.edit = edit.position
INNER JOIN staging.gpu_op USING (gpu_op_id)
LEFT JOIN (
    SELECT op_id, bool_and(op <> 'send_recv') AS is_of_group
    FROM prediction.op_problem
    WHERE family = 'collective'
    GROUP BY op_id
) AS message
    USING (op_id)
WHERE
    work.target IN ('gpu', 'op')
    AND (
        edit.to_gpu IS NOT NULL
        OR edit.to_dtype IS NOT NULL
        OR edit.to_batch IS NOT NULL
        OR (edit.to_ranks IS NOT NULL AND is_of_group)
    )
GROUP BY work.scenario, gpu_op_id;
