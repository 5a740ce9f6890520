-- Times in which the op of a collective on the CPU waits for another rank, until that
-- rank's op starts; and in which a thread waits for a message on the CPU until the other rank
-- has posted its part (`graph.message_wait`). One that waits for several ranks waits for them
-- one after another, in order of arrival. On a GPU the kernel waits, and no thread does
-- (`graph.collective`).
-- One row per op of a process group, or message, and rank of the run that arrived later.
-- Key: thread_id, start_ns.
CREATE TABLE graph.rank_wait (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The waiting host thread.
    thread_id,
    -- The op in which it waits, or the range of the message.
    op_id,
    -- [ns] Start of the wait.
    start_ns,
    -- [ns] End: the other rank has arrived.
    end_ns,
    -- The other rank's trace.
    awaited_trace_id,
    -- The thread of that trace that executes the collective, or posts its part.
    awaited_thread_id,
    -- Its op, or the range of its message.
    awaited_op_id,
    -- [ns] Start of that op, or when the message was posted, by the clock of its trace.
    arrival_ns
) AS
WITH
member AS (
    SELECT
        collective.*,
        thread_id,
        event.start_ns,
        event.start_ns AS came_ns,
        event.end_ns,
        event.start_ns + shift_ns AS run_arrival_ns,
        shift_ns,
        true AS is_certain
    FROM graph.collective AS collective
    INNER JOIN graph.top_level_event AS event USING (trace_id, node_id)
    INNER JOIN graph.clock AS clock ON collective.trace_id = clock.trace_id
    UNION ALL
    SELECT
        collective.*,
        thread_id,
        wait.start_ns,
        posted_ns,
        end_ns,
        posted_ns + shift_ns,
        shift_ns,
        is_recorded
    FROM graph.collective AS collective
    INNER JOIN graph.message_wait AS wait ON node_id = annotation_id
    INNER JOIN graph.clock AS clock ON collective.trace_id = clock.trace_id
),

later AS (
    SELECT
        own.run_id,
        own.trace_id,
        own.thread_id,
        own.node_id,
        own.start_ns,
        least(other.run_arrival_ns - own.shift_ns, own.end_ns) AS arrived_ns,
        other.trace_id AS awaited_trace_id,
        other.thread_id AS awaited_thread_id,
        other.node_id AS awaited_node_id,
        other.came_ns AS arrival_ns
    FROM member AS own
    INNER JOIN member AS other
        ON
            own.last_node_id = other.last_node_id
            AND own.run_arrival_ns < other.run_arrival_ns
            AND NOT own.is_eager
            -- Where the call of `wait` is not recorded, most of the time waits for it.
            AND (
                own.is_certain
                OR 2 * (own.end_ns - other.run_arrival_ns + own.shift_ns)
                <= own.end_ns - own.start_ns
            )
),

following AS (
    SELECT
        *,
        greatest(
            start_ns,
            lag(arrived_ns) OVER (
                PARTITION BY node_id ORDER BY arrived_ns, arrival_ns, awaited_node_id
            )
        ) AS wait_start_ns
    FROM later
)

SELECT
    run_id,
    trace_id,
    thread_id,
    node_id,
    wait_start_ns,
    arrived_ns,
    awaited_trace_id,
    awaited_thread_id,
    awaited_node_id,
    arrival_ns
FROM following
WHERE arrived_ns > wait_start_ns;
