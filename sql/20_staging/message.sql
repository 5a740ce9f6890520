-- Sends and receives whose two ranks are known: on GPUs the profiler records the other rank
-- with the kernel, apart from batches, which are one kernel; on CPUs with the op that posts
-- the message (`staging.posted_message`).
-- One row per kernel of a send or a receive, or its range on the CPU, with a known sender
-- and receiver.
-- Key: node_id.
CREATE VIEW staging.message (
    -- The kernel, or the range.
    node_id,
    -- Rank that sends it.
    sender,
    -- Rank that receives it.
    receiver
) AS
WITH
ended AS (
    SELECT
        gpu_op_id,
        staging.collective_kind(lower(args ->> '$."Collective name"')) AS called,
        try_cast(args ->> '$."Src Rank"' AS BIGINT) AS given_sender,
        try_cast(args ->> '$."Dst Rank"' AS BIGINT) AS given_receiver,
        CASE called WHEN 'send' THEN coalesce(given_sender, rank) ELSE given_sender END
        AS sender,
        CASE called WHEN 'recv' THEN coalesce(given_receiver, rank) ELSE given_receiver END
        AS receiver
    FROM staging.gpu_op AS gpu_op
    INNER JOIN staging.slice ON gpu_op_id = event_id
    INNER JOIN staging.trace AS trace ON gpu_op.trace_id = trace.trace_id
    WHERE is_collective AND called IN ('send', 'recv')
)

SELECT gpu_op_id, sender, receiver
FROM ended
WHERE sender IS NOT NULL AND receiver IS NOT NULL
UNION ALL
SELECT annotation_id, sender, receiver
FROM staging.posted_message
WHERE sender IS NOT NULL AND receiver IS NOT NULL;
