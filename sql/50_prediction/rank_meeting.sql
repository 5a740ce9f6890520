-- Where host threads of different ranks meet: each op of a collective on the CPU starts
-- when its rank arrives, and continues when all ranks of the run have arrived. A rank that
-- arrived last may also have to wait, if an edit makes another one come later.
-- One row per op of a process group that is matched with those of other ranks.
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
    -- the one at whose end it arrives.
    position
) AS
WITH
arrival AS (
    SELECT
        collective.node_id AS op_id,
        collective.run_id,
        collective.trace_id,
        last_node_id,
        event.thread_id,
        span.position AS arrival_position
    FROM graph.collective AS collective
    INNER JOIN graph.top_level_event AS event USING (trace_id, node_id)
    INNER JOIN overhead.timeline AS span
        ON event.thread_id = span.thread_id AND event.start_ns = span.end_ns
),

waited AS (
    SELECT op_id, max(position) AS position
    FROM overhead.timeline
    WHERE type = 'wait_rank'
    GROUP BY op_id
)

SELECT
    arrival.op_id,
    run_id,
    trace_id,
    last_node_id,
    thread_id,
    arrival_position,
    coalesce(waited.position, arrival_position)
FROM arrival
LEFT JOIN waited ON arrival.op_id = waited.op_id;
