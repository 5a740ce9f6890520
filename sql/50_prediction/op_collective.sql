-- Messages of collectives, as the profiler records them with the call, as the shapes of its
-- tensors tell, or the range around it that says what is called. The size is counted as
-- NCCL's tests do: what a rank has in the end or in the beginning, whichever is more.
-- One row per call of a collective whose message is known.
-- Key: op_id.
CREATE VIEW prediction.op_collective (
    -- The op that records the call.
    op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast` or `other`.
    collective,
    -- [B] Message.
    message_bytes,
    -- Ranks that take part.
    rank_count,
    -- [B] What a rank sends: all_reduce 2 (n - 1) / n of the message, others (n - 1) / n,
    -- broadcast all of it.
    sent_bytes
) AS
WITH
ranged AS (
    SELECT
        op_id,
        max(collective.kind) AS kind,
        max(element_count * element_bytes) AS ranged_bytes
    FROM staging.collective AS collective
    INNER JOIN staging.gpu_op USING (gpu_op_id)
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
        TRY(greatest(
            try_cast(event.args ->> '$."In msg nelems"' AS BIGINT),
            try_cast(event.args ->> '$."Out msg nelems"' AS BIGINT)
        ) * element.element_bytes) AS recorded_bytes,
        ranged.ranged_bytes
    FROM staging.op AS op
    INNER JOIN staging.host_event AS event
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
    WHERE op.name = 'record_param_comms' AND event.name = 'record_param_comms'
),

named AS (
    SELECT
        *,
        CASE
            WHEN staging.collective_kind(spoken) NOT IN ('reduce', 'send', 'recv')
                THEN staging.collective_kind(spoken)
            ELSE 'other'
        END AS collective,
        coalesce(CASE WHEN group_size > 0 THEN group_size END, world_size) AS ranks
    FROM call
    INNER JOIN staging.trace USING (trace_id)
),

sized AS (
    SELECT
        *,
        TRY(coalesce(recorded_bytes, greatest(
            result_bytes,
            coalesce(input_bytes, ranged_bytes)
            * (CASE WHEN collective = 'all_gather' THEN ranks ELSE 1 END)
        ))) AS message_bytes
    FROM named
)

SELECT
    op_id,
    sized.run_id,
    trace_id,
    collective,
    message_bytes,
    ranks,
    (
        message_bytes * (
            CASE collective
                WHEN 'broadcast' THEN 1
                WHEN 'all_reduce' THEN 2 * (ranks - 1) / ranks
                ELSE (ranks - 1) / ranks
            END
        )
    )::BIGINT
FROM sized
WHERE message_bytes BETWEEN 0 AND 1_125_899_906_842_624 AND ranks IS NOT NULL;
