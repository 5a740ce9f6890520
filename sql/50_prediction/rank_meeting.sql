-- Where host threads of different ranks meet: each op of a collective on the CPU starts
-- when its rank arrives, and continues when all ranks of the run have arrived. A rank that
-- arrived last may also have to wait, if an edit makes another one come later. A message on
-- the CPU arrives where it is posted, and its thread waits elsewhere.
-- One row per op of a process group, or message, that is matched with those of other ranks.
-- Key: op_id.
CREATE TABLE prediction.rank_meeting (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The op of the rank that arrived last, the same for all ranks.
    last_op_id,
    -- Thread that executes the collective.
    thread_id,
    -- Span of that thread at whose end the rank arrives.
    arrival_position,
    -- Span at whose end it continues: the last in which it waits for other ranks, otherwise
    -- the one at whose end it arrives, or starts to wait for its message.
    position,
    -- Whether it is a message.
    is_message,
    -- Whether the others wait for it, but it does not wait for them.
    is_eager
) AS
WITH
arrival AS (
    SELECT
        collective.node_id AS op_id,
        collective.run_id,
        collective.trace_id,
        last_node_id,
        event.thread_id,
        span.position AS arrival_position,
        span.position AS wait_position,
        false AS is_message,
        is_eager
    FROM graph.collective AS collective
    INNER JOIN graph.top_level_event AS event USING (trace_id, node_id)
    INNER JOIN overhead.timeline AS span
        ON event.thread_id = span.thread_id AND event.start_ns = span.end_ns
    UNION ALL
    SELECT
        collective.node_id,
        collective.run_id,
        collective.trace_id,
        last_node_id,
        wait.thread_id,
        posting.position,
        waiting.position,
        true,
        is_eager
    FROM graph.collective AS collective
    INNER JOIN graph.message_wait AS wait ON collective.node_id = annotation_id
    INNER JOIN overhead.timeline AS posting
        ON wait.thread_id = posting.thread_id AND posted_ns = posting.end_ns
    INNER JOIN overhead.timeline AS waiting
        ON
            wait.thread_id = waiting.thread_id
            AND waiting.end_ns = CASE WHEN is_recorded THEN wait.start_ns ELSE wait.end_ns END
),

waited AS (
    SELECT wait.op_id, max(position) AS position
    FROM graph.rank_wait AS wait
    INNER JOIN overhead.timeline AS span
        ON wait.thread_id = span.thread_id AND wait.end_ns = span.end_ns
    GROUP BY wait.op_id
)

SELECT
    arrival.op_id,
    run_id,
    trace_id,
    last_node_id,
    thread_id,
    arrival_position,
    coalesce(waited.position, wait_position),
    is_message,
    is_eager
FROM arrival
LEFT JOIN waited ON arrival.op_id = waited.op_id;
