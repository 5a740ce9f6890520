-- Messages of collectives, as the profiler records them with the call, or from the shapes
-- of its tensors, or from the range around it that describes the call. Sizes follow NCCL's
-- tests: the larger of a rank's input and output. The bytes read are what each rank sends:
-- the size times NCCL's bus factor, which is (n - 1) / n, for all_reduce twice that, for
-- broadcast and send_recv 1. Over several nodes, rings leave each node once, however many
-- ranks it has; in an all_to_all, everything for other nodes leaves it. Trees of an
-- all_reduce go up and down, rings from node to node.
-- One row per call of a collective with a known message.
-- Key: op_id.
-- Part of: prediction.op_problem.
CREATE VIEW prediction.op_collective (
    -- The op that records the call.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Family of the kernel models.
    family,
    -- `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `send_recv`
    -- or `other`.
    op,
    -- NULL: sizes are in bytes.
    dtype,
    -- Message.
    bytes,
    -- Participating ranks.
    ranks,
    -- Ranks of them per node; all, if unknown.
    ranks_per_node,
    -- [FLOP] FLOPs.
    flops,
    -- [B] What a rank sends.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- [B] What leaves a node, a rank's part of it.
    network_bytes,
    -- Steps from node to node that wait for each other.
    network_steps,
    -- Whether all relevant sizes and types were recorded.
    is_exact
) AS
WITH
ranged AS (
    SELECT
        op_id,
        max(collective.kind) AS kind,
        max(element_count * element_bytes) AS ranged_bytes
    FROM staging.collective AS collective
    INNER JOIN staging.gpu_op AS gpu_op ON node_id = gpu_op_id
    INNER JOIN prediction.op_dtype ON element_type = dtype
    GROUP BY op_id
),

call AS (
    SELECT
        op.op_id,
        op.run_id,
        op.trace_id,
        shape.input_bytes,
        shape.result_bytes,
        lower(
            coalesce(event.args ->> '$."Collective name"', ranged.kind, around.name)
        ) AS spoken,
        try_cast(event.args ->> '$."Group size"' AS INTEGER) AS group_size,
        try_cast(event.args ->> '$."Process Group Ranks"' AS BIGINT []) AS members,
        try_cast(event.args ->> '$."Src Rank"' AS BIGINT) AS given_sender,
        try_cast(event.args ->> '$."Dst Rank"' AS BIGINT) AS given_receiver,
        TRY(greatest(
            try_cast(event.args ->> '$."In msg nelems"' AS BIGINT),
            try_cast(event.args ->> '$."Out msg nelems"' AS BIGINT)
        ) * element.element_bytes) AS recorded_bytes,
        ranged.ranged_bytes
    FROM staging.op AS op
    INNER JOIN staging.slice AS event
        ON op.op_id = event.event_id AND op.trace_id = event.trace_id
    LEFT JOIN staging.op AS around ON op.parent_op_id = around.op_id
    LEFT JOIN ranged ON op.op_id = ranged.op_id
    LEFT JOIN prediction.op_shape AS shape ON op.op_id = shape.op_id AND shape.is_complete
    LEFT JOIN (
        VALUES
        ('Float', 4), ('Half', 2), ('BFloat16', 2), ('Double', 8), ('Long', 8), ('Int', 4),
        ('Byte', 1), ('Char', 1), ('Bool', 1), ('Short', 2), ('Float8_e4m3fn', 1)
    ) AS element (dtype, element_bytes)
        ON event.args ->> '$.dtype' = element.dtype
    WHERE
        op.name = 'record_param_comms'
        AND event.name = 'record_param_comms'
        AND op.trace_id IN (SELECT trace_id FROM staging.gpu_op)
),

named AS (
    SELECT *, staging.collective_kind(spoken) AS kind
    FROM call
    INNER JOIN staging.trace USING (trace_id)
),

grouped AS (
    SELECT
        *,
        CASE
            WHEN kind IN ('send', 'recv') THEN 'send_recv'
            WHEN kind IN ('reduce', 'gather', 'scatter', 'barrier') THEN 'other'
            ELSE kind
        END AS collective,
        CASE
            WHEN kind IN ('send', 'recv') THEN 2
            WHEN group_size > 0 THEN group_size
            ELSE world_size
        END AS ranks,
        CASE kind WHEN 'send' THEN given_receiver WHEN 'recv' THEN given_sender END AS peer,
        staging.node_count(
            CASE
                WHEN peer IS NULL THEN members
                ELSE [coalesce(given_sender, rank), coalesce(given_receiver, rank)]
            END,
            ranks, world_size, described_count
        ) AS node_count
    FROM named
),

sized AS (
    SELECT
        * EXCLUDE (ranks),
        ranks::BIGINT AS ranks,
        TRY(coalesce(recorded_bytes, greatest(
            result_bytes,
            coalesce(input_bytes, ranged_bytes)
            * (CASE WHEN collective = 'all_gather' THEN ranks ELSE 1 END)
        ))) AS message_bytes
    FROM grouped
),

problem AS (
    SELECT
        *,
        collective AS op,
        NULL::VARCHAR AS dtype,
        message_bytes AS bytes,
        ceil(ranks / node_count)::BIGINT AS ranks_per_node
    FROM sized
    WHERE message_bytes BETWEEN 0 AND 1_125_899_906_842_624 AND ranks IS NOT NULL
)

SELECT
    op_id, run_id, trace_id, 'collective' AS family, op, dtype,
    bytes,
    ranks,
    coalesce(ranks_per_node, ranks) AS ranks_per_node,
    0::DOUBLE AS flops,
    try_cast(
        bytes * CASE
            WHEN op IN ('broadcast', 'send_recv') THEN 1
            WHEN op = 'all_reduce' THEN 2 * (ranks::DOUBLE - 1) / ranks
            ELSE (ranks::DOUBLE - 1) / ranks
        END AS BIGINT
    ) AS read_bytes,
    0::BIGINT AS written_bytes,
    try_cast(
        bytes * CASE
            WHEN coalesce(ranks_per_node, ranks) >= ranks THEN 0
            WHEN op = 'all_to_all' THEN (ranks::DOUBLE - ranks_per_node) / ranks
            WHEN op = 'send_recv' THEN 1
            WHEN op = 'broadcast' THEN 1 / ranks_per_node::DOUBLE
            WHEN op = 'all_reduce' THEN 2 * (ranks::DOUBLE - 1) / ranks / ranks_per_node
            ELSE (ranks::DOUBLE - 1) / ranks / ranks_per_node
        END AS BIGINT
    ) AS network_bytes,
    CASE
        WHEN coalesce(ranks_per_node, ranks) >= ranks THEN 0
        WHEN op = 'all_reduce' THEN 2 * log2(ceil(ranks / ranks_per_node))
        WHEN op IN ('all_to_all', 'send_recv', 'other') THEN 1
        ELSE ceil(ranks / ranks_per_node) - 1
    END::DOUBLE AS network_steps,
    false AS is_exact -- which links join the ranks is not recorded
FROM problem;
