-- Launches of other threads on streams that a host call waits for, of threads that the steps
-- need: the last one before, and the first one after the call. Simulations keep that order,
-- so the call waits for the same work in all scenarios.
-- One row per waiting span of host time and launched GPU op.
-- Key: thread_id, position, gpu_op_id.
CREATE VIEW simulation.kept_order (
    -- The trace.
    trace_id,
    -- The thread that waits.
    thread_id,
    -- Position of the span in which it does.
    position,
    -- GPU work that another thread launched.
    gpu_op_id,
    -- That thread.
    launch_thread_id,
    -- Position of the span in which it did.
    launch_position,
    -- Whether the call waits for it.
    is_before
) AS
WITH
waiting AS (
    SELECT span.trace_id, span.thread_id, span.position, lane, work.position AS lane_position
    FROM graph.host_awaited AS awaited
    INNER JOIN overhead.timeline AS span USING (trace_id, call_id)
    INNER JOIN simulation.gpu_placement AS work USING (gpu_op_id)
    SEMI JOIN (SELECT thread_id FROM graph.needed_thread WHERE NOT is_assumed)
        USING (thread_id)
    WHERE span.type LIKE 'wait_%'
),

launching AS (
    SELECT waiting.*, other.launch_thread_id
    FROM waiting
    INNER JOIN (SELECT DISTINCT lane, launch_thread_id FROM simulation.gpu_placement) AS other
        USING (lane)
    WHERE waiting.thread_id <> other.launch_thread_id
),

near AS (
    SELECT launching.*, work.gpu_op_id, work.launch_position, true AS is_before
    FROM launching
    ASOF INNER JOIN simulation.gpu_placement AS work
        ON
            launching.lane = work.lane
            AND launching.launch_thread_id = work.launch_thread_id
            AND lane_position >= work.position
    UNION ALL
    SELECT launching.*, work.gpu_op_id, work.launch_position, false
    FROM launching
    ASOF INNER JOIN simulation.gpu_placement AS work
        ON
            launching.lane = work.lane
            AND launching.launch_thread_id = work.launch_thread_id
            AND lane_position < work.position
)

-- Calls of two threads may overlap: then their order is not what decides.
SELECT DISTINCT
    near.trace_id, near.thread_id, near.position, gpu_op_id, launch_thread_id,
    launch_position, is_before
FROM near
INNER JOIN overhead.timeline AS waiting
    ON near.thread_id = waiting.thread_id AND near.position = waiting.position
INNER JOIN overhead.timeline AS launch
    ON launch_thread_id = launch.thread_id AND launch_position = launch.position
WHERE (launch.end_ns <= waiting.start_ns) = is_before;
