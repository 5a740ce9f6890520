-- Where a backwards walk continues: from GPU work to what it had started after, from a time
-- at which a thread continued to what had ended. A launch leads to its thread, and so to
-- when that last continued before the launch.
-- One row per node of a walk; a second one for a collective that waited for another rank,
-- for the paths of runs.
-- Key: trace_id, node, is_run.
CREATE TABLE critical_path.cause (
    -- The trace.
    trace_id,
    -- The GPU op, or minus the `resume_id` (`graph.host_cause`).
    node,
    -- Whether it is only for paths of runs.
    is_run,
    -- [ns] When the other rank arrived, by the run's clock; NULL if none did.
    arrival_ns,
    -- The next node, likewise; NULL at the start of a thread.
    cause_node,
    -- The trace of the next node.
    cause_trace_id,
    -- Host thread along which the walk continues; NULL on a device.
    thread_id,
    -- The next GPU work; NULL on the host.
    gpu_op_id,
    -- [ns] When it continues there, by the clock of that trace.
    until_ns,
    -- `return`, `join`, `fork`, `launch`, `stream`, `stream_wait`, `occupancy`,
    -- or `arrival` (of another rank).
    reason,
    -- [ns] Offset to add to times of that trace to get times by the run's clock.
    shift_ns
) AS
WITH
arrival AS (
    SELECT
        collective.trace_id,
        node_id AS gpu_op_id,
        last_node_id AS last_gpu_op_id,
        last.trace_id AS last_trace_id,
        last.start_ns AS arrival_ns,
        shift_ns
    FROM graph.collective AS collective
    INNER JOIN staging.gpu_op AS last ON last_node_id = last.gpu_op_id
    INNER JOIN graph.clock AS clock ON last.trace_id = clock.trace_id
    WHERE node_id <> last_node_id AND waiting_ns > 0
)

SELECT
    work.trace_id,
    work.gpu_op_id AS node,
    false AS is_run,
    arrival.arrival_ns + arrival.shift_ns AS arrival_ns,
    CASE cause WHEN 'launch' THEN -latest.resume_id ELSE cause_gpu_op_id END,
    work.trace_id,
    CASE cause WHEN 'launch' THEN work.launch_thread_id END,
    cause_gpu_op_id,
    CASE cause WHEN 'launch' THEN least(cause_ns, work.start_ns) ELSE work.start_ns END,
    cause,
    coalesce(clock.shift_ns, 0)
FROM graph.stream_position AS work
INNER JOIN graph.gpu_cause USING (gpu_op_id)
LEFT JOIN arrival ON work.gpu_op_id = arrival.gpu_op_id
LEFT JOIN graph.clock AS clock ON work.trace_id = clock.trace_id
ASOF LEFT JOIN graph.last_resume AS latest
    ON
        work.launch_thread_id = latest.thread_id
        AND work.launch_start_ns >= latest.resume_ns
WHERE cause <> 'none'
UNION ALL
SELECT
    trace_id, gpu_op_id, true, arrival_ns + shift_ns, last_gpu_op_id, last_trace_id,
    NULL, last_gpu_op_id, arrival_ns, 'arrival', shift_ns
FROM arrival
UNION ALL
SELECT
    cause.trace_id,
    -resume_id,
    false,
    NULL,
    coalesce(cause_gpu_op_id, -cause_resume_id),
    cause.trace_id,
    cause_thread_id,
    cause_gpu_op_id,
    resume_ns,
    cause,
    coalesce(shift_ns, 0)
FROM graph.host_cause AS cause
LEFT JOIN graph.clock ON cause.trace_id = graph.clock.trace_id
WHERE cause <> 'arrival'
UNION ALL
-- A wait for another rank belongs to the thread for paths within a trace.
SELECT
    cause.trace_id,
    -cause.resume_id,
    false,
    cause.resume_ns + shift_ns,
    -earlier.resume_id,
    cause.trace_id,
    cause.thread_id,
    NULL,
    cause.resume_ns,
    'arrival',
    shift_ns
FROM graph.host_cause AS cause
INNER JOIN graph.clock AS clock ON cause.trace_id = clock.trace_id
ASOF LEFT JOIN graph.last_resume AS earlier
    ON cause.thread_id = earlier.thread_id AND cause.resume_ns > earlier.resume_ns
WHERE cause = 'arrival'
UNION ALL
SELECT
    cause.trace_id,
    -resume_id,
    true,
    resume_ns + own.shift_ns,
    -cause_resume_id,
    thread.trace_id,
    cause_thread_id,
    NULL,
    cause_ns,
    'arrival',
    other.shift_ns
FROM graph.host_cause AS cause
INNER JOIN graph.clock AS own ON cause.trace_id = own.trace_id
INNER JOIN staging.thread AS thread ON cause_thread_id = thread.thread_id
INNER JOIN graph.clock AS other ON thread.trace_id = other.trace_id
WHERE cause = 'arrival';
