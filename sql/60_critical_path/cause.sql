-- What a walk backwards goes on to: from GPU work to what it had started after, from a
-- moment at which a thread went on to what had been over. A launch leads to its thread,
-- and so to the last moment of that before the launch.
-- One row per node of a walk; of a collective that waited for another rank a second one,
-- for the paths of runs.
-- Key: trace_id, node, is_run.
CREATE TABLE critical_path.cause (
    -- The trace it is from.
    trace_id,
    -- The GPU work, or minus the moment (`graph.host_cause`).
    node,
    -- Whether it is for paths of runs alone.
    is_run,
    -- [ns] When the other rank arrived, by the run's clock; NULL without such a one.
    arrival_ns,
    -- What it goes on to, likewise; NULL at the begin of a thread.
    cause_node,
    -- The trace of that.
    cause_trace_id,
    -- Host thread that the walk goes on along; NULL on a device.
    thread_id,
    -- GPU work that it goes on to; NULL on the host.
    kernel_id,
    -- [ns] When it goes on there, by the clock of that trace.
    until_ns,
    -- `return`, `join`, `fork`, `launch`, `stream`, `stream_wait`, `occupancy`,
    -- or `arrival` (of another rank).
    reason,
    -- [ns] What to add to times of that trace for times by the run's clock.
    shift_ns
) AS
WITH
arrival AS (
    SELECT
        collective.trace_id,
        collective.kernel_id,
        last_kernel_id,
        last.trace_id AS last_trace_id,
        last.start_ns AS arrival_ns,
        shift_ns
    FROM graph.collective AS collective
    INNER JOIN staging.kernel AS last ON last_kernel_id = last.kernel_id
    INNER JOIN graph.clock AS clock ON last.trace_id = clock.trace_id
    WHERE collective.kernel_id <> last_kernel_id AND waiting_ns > 0
)

SELECT
    work.trace_id,
    work.kernel_id AS node,
    false AS is_run,
    arrival.arrival_ns + arrival.shift_ns AS arrival_ns,
    CASE cause WHEN 'launch' THEN -latest.moment ELSE cause_kernel_id END,
    work.trace_id,
    CASE cause WHEN 'launch' THEN work.launch_thread_id END,
    cause_kernel_id,
    CASE cause WHEN 'launch' THEN least(cause_ns, work.start_ns) ELSE work.start_ns END,
    cause,
    coalesce(clock.shift_ns, 0)
FROM graph.stream_position AS work
INNER JOIN graph.gpu_cause USING (kernel_id)
LEFT JOIN arrival ON work.kernel_id = arrival.kernel_id
LEFT JOIN graph.clock AS clock ON work.trace_id = clock.trace_id
ASOF LEFT JOIN graph.last_moment AS latest
    ON
        work.launch_thread_id = latest.thread_id
        AND work.launch_start_ns >= latest.resume_ns
WHERE cause <> 'none'
UNION ALL
SELECT
    trace_id, kernel_id, true, arrival_ns + shift_ns, last_kernel_id, last_trace_id,
    NULL, last_kernel_id, arrival_ns, 'arrival', shift_ns
FROM arrival
UNION ALL
SELECT
    cause.trace_id,
    -moment,
    false,
    NULL,
    coalesce(cause_kernel_id, -cause_moment),
    cause.trace_id,
    cause_thread_id,
    cause_kernel_id,
    resume_ns,
    cause,
    coalesce(shift_ns, 0)
FROM graph.host_cause AS cause
LEFT JOIN graph.clock ON cause.trace_id = graph.clock.trace_id;
