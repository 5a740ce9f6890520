-- The two ranks of sends and receives on the CPU. If a rank is in several groups, an op that
-- posts a message records the other rank's number in one of them: in the largest in which as
-- many are received as sent. A receive from any source is matched with a send to its rank, in
-- the order in which they end, if there are as many of them.
-- One row per range of a message whose two ranks are found.
-- Key: node_id.
CREATE VIEW graph.message_peer (
    -- The range.
    node_id,
    -- The trace.
    trace_id,
    -- Rank that sends it.
    sender,
    -- Rank that receives it.
    receiver,
    -- Its tag.
    tag
) AS
WITH
posted AS (
    SELECT
        annotation_id AS node_id,
        trace_id,
        run_id,
        rank,
        contains(name, 'send') AS is_send,
        contains(lower(name), 'anysource') AS is_from_any,
        other_number,
        tag,
        sender,
        receiver,
        message.end_ns + base_ns AS end_ns
    FROM staging.posted_message AS message
    INNER JOIN staging.trace USING (trace_id)
),

-- In each group, who it would be.
possible AS (
    SELECT
        node_id,
        run_id,
        is_send,
        ranks_text,
        len(ranks) AS rank_count,
        CASE WHEN is_send THEN rank ELSE ranks[other_number + 1] END AS sender,
        CASE WHEN is_send THEN ranks[other_number + 1] ELSE rank END AS receiver,
        tag
    FROM posted
    INNER JOIN staging.listed_group USING (trace_id)
    WHERE posted.sender IS NULL AND other_number BETWEEN 0 AND len(ranks) - 1
),

agreeing AS (
    SELECT
        run_id,
        ranks_text,
        sender,
        receiver,
        tag,
        count(*) FILTER (is_send) AS sent_count,
        count(*) FILTER (NOT is_send) AS received_count
    FROM possible
    WHERE sender <> receiver
    GROUP BY run_id, ranks_text, sender, receiver, tag
    HAVING
        least(sent_count, received_count) > 0
        AND abs(sent_count - received_count) <= 0.2 * least(sent_count, received_count)
),

named AS (
    SELECT node_id, trace_id, run_id, sender, receiver, tag, is_send, end_ns
    FROM posted
    WHERE sender IS NOT NULL AND receiver IS NOT NULL
    UNION ALL
    SELECT
        node_id,
        posted.trace_id,
        posted.run_id,
        possible.sender,
        possible.receiver,
        posted.tag,
        posted.is_send,
        end_ns
    FROM possible
    INNER JOIN agreeing USING (run_id, ranks_text, sender, receiver, tag)
    INNER JOIN posted USING (node_id)
    QUALIFY row_number() OVER (
        PARTITION BY node_id ORDER BY rank_count DESC, ranks_text, possible.sender
    ) = 1
),

-- Sends to ranks that name no source, and receives from any, in the order of their ends.
open_send AS (
    SELECT
        sent.*,
        row_number() OVER of_receiver AS number,
        count(*) OVER (PARTITION BY sent.run_id, sent.receiver, sent.tag) AS open_count
    FROM named AS sent
    ANTI JOIN (SELECT * FROM named WHERE NOT is_send) AS received
        USING (run_id, sender, receiver, tag)
    WHERE is_send
    WINDOW of_receiver AS (
        PARTITION BY sent.run_id, sent.receiver, sent.tag ORDER BY sent.end_ns, sent.node_id
    )
),

open_receive AS (
    SELECT
        *,
        rank AS receiver,
        row_number() OVER (
            PARTITION BY run_id, rank, tag ORDER BY end_ns, node_id
        ) AS number,
        count(*) OVER (PARTITION BY run_id, rank, tag) AS open_count
    FROM (SELECT * EXCLUDE (sender, receiver) FROM posted WHERE is_from_any)
)

SELECT node_id, trace_id, sender, receiver, tag
FROM named
UNION ALL
SELECT received.node_id, received.trace_id, sent.sender, sent.receiver, received.tag
FROM open_receive AS received
INNER JOIN open_send AS sent USING (run_id, receiver, tag, number, open_count);
