-- Sends and receives of process groups on the CPU: a thread posts them in an op
-- (`c10d::send`), goes on, and later waits for them.
-- One row per range of a send or a receive.
-- Key: annotation_id.
CREATE TABLE staging.posted_message (
    -- The range, from where it was posted until the thread had waited for it.
    annotation_id,
    -- The trace.
    trace_id,
    -- The thread.
    thread_id,
    -- Name of the range, such as `gloo:recv`.
    name,
    -- [ns] When it was posted, at the earliest: start of the op that posts it.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Dimensions of its arguments, as a JSON list of lists.
    input_dims,
    -- Types of its arguments, as a JSON list.
    input_types,
    -- The op that posts it.
    op_id,
    -- The top-level op around that.
    top_op_id,
    -- The other rank's number in the group, as the op records it with shapes.
    other_number,
    -- The message's tag, likewise; 0 if not known.
    tag,
    -- Rank that sends it; NULL if not known. The op records the other rank's number in its
    -- group, so that needs recorded shapes, and a single group; of two ranks, it is the other.
    sender,
    -- Rank that receives it.
    receiver
) AS
WITH
-- The ranks of a trace's only group.
only_group AS (
    SELECT trace_id, any_value(ranks) AS ranks
    FROM staging.listed_group
    GROUP BY trace_id
    HAVING count(DISTINCT ranks) = 1 AND count(ranks) = count(*)
),

grouped AS (
    SELECT
        trace_id,
        rank,
        world_size,
        trace_id NOT IN (SELECT trace_id FROM staging.listed_group) AS has_all_ranks,
        ranks
    FROM staging.trace
    LEFT JOIN only_group USING (trace_id)
),

posting AS (
    SELECT op_id, thread_id, top_op_id, name, start_ns, end_ns, concrete_inputs
    FROM staging.op
    WHERE name LIKE 'c10d::send%' OR name LIKE 'c10d::recv%'
),

posted AS (
    SELECT
        message.event_id,
        message.trace_id,
        thread.thread_id,
        message.name,
        CASE WHEN message.start_ns < posting.end_ns THEN posting.start_ns ELSE message.start_ns END
        AS start_ns,
        message.end_ns,
        message.input_dims,
        message.input_types,
        contains(message.name, 'send') AS is_send,
        CASE WHEN message.start_ns < posting.end_ns THEN op_id END AS op_id,
        CASE WHEN message.start_ns < posting.end_ns THEN posting.top_op_id END AS top_op_id,
        CASE
            WHEN message.start_ns < posting.end_ns AND posting.name NOT LIKE '%any_source%'
                THEN try_cast(posting.concrete_inputs ->> 2 AS BIGINT)
        END AS number,
        CASE
            WHEN message.start_ns < posting.end_ns
                THEN try_cast(
                    posting.concrete_inputs ->> CASE
                        WHEN posting.name LIKE '%any_source%' THEN 2 ELSE 3
                    END AS BIGINT
                )
        END AS tag
    FROM staging.host_event AS message
    INNER JOIN staging.thread AS thread USING (trace_id, pid, tid)
    ASOF LEFT JOIN posting
        ON thread.thread_id = posting.thread_id AND message.start_ns >= posting.start_ns
    WHERE staging.is_posted_message(message.name)
),

known AS (
    SELECT
        posted.*,
        rank AS own,
        CASE
            WHEN has_all_ranks AND number BETWEEN 0 AND world_size - 1 THEN number
            WHEN number BETWEEN 0 AND len(ranks) - 1 THEN ranks[number + 1]
            WHEN world_size = 2 AND rank IN (0, 1) THEN 1 - rank
        END AS other
    FROM posted
    INNER JOIN grouped USING (trace_id)
)

SELECT
    event_id,
    trace_id,
    thread_id,
    name,
    start_ns,
    end_ns,
    input_dims,
    input_types,
    op_id,
    top_op_id,
    number,
    coalesce(tag, 0),
    CASE WHEN other <> own THEN CASE WHEN is_send THEN own ELSE other END END,
    CASE WHEN other <> own THEN CASE WHEN is_send THEN other ELSE own END END
FROM known;
