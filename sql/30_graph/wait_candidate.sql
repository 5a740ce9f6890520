-- GPU work that a blocking call may wait for: on each stream, the last work launched when
-- the call started, and the copy made by the call itself. If the profiler recorded the
-- stream or event, it is that one; for other events it is unknown.
-- One row per blocking call and GPU op.
-- Key: call_id, gpu_op_id.
CREATE TABLE graph.wait_candidate (
    -- The call.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `stream`, `device`, `event` or `copy`.
    target,
    -- The GPU op.
    gpu_op_id,
    -- Device of that work.
    device,
    -- [ns] End of that work.
    gpu_op_end_ns,
    -- [ns] Start of the call.
    start_ns,
    -- [ns] End of the call.
    end_ns,
    -- Whether the call's thread had last launched something on the work's stream.
    is_own_stream,
    -- Whether it had last launched something on the work's device.
    is_own_device,
    -- Whether the call blocks, by its name: a wait, or a copy that is not asynchronous.
    is_blocking,
    -- Whether the profiler recorded what the call waits for.
    recorded,
    -- Whether this is only because its stream had been made to wait for that work.
    is_passed
) AS
WITH
blocking AS (
    SELECT
        call.call_id,
        call.run_id,
        call.trace_id,
        call.thread_id,
        call.target,
        call.start_ns,
        call.end_ns,
        recorded_wait.device,
        recorded_wait.correlation IS NOT NULL AS recorded
    FROM staging.call AS call
    LEFT JOIN staging.device_wait AS recorded_wait
        ON
            call.trace_id = recorded_wait.trace_id
            AND call.correlation = recorded_wait.correlation
            AND call.target = recorded_wait.target
    WHERE call.kind = 'wait'
),

last_of_thread AS (
    SELECT blocking.call_id, work.device, work.stream
    FROM blocking
    ASOF INNER JOIN graph.stream_position AS work
        ON
            blocking.thread_id = work.launch_thread_id
            AND blocking.start_ns >= work.launch_start_ns
),

-- In-order streams: the last work launched on a stream is the last to end there.
last_launched AS (
    SELECT blocking.*, work.gpu_op_id, false AS is_passed
    FROM blocking
    INNER JOIN staging.stream AS stream
        ON
            blocking.trace_id = stream.trace_id
            AND coalesce(blocking.device = stream.device, true)
    ASOF INNER JOIN graph.launched_work AS work
        ON
            stream.trace_id = work.trace_id
            AND stream.device = work.device
            AND stream.stream = work.stream
            AND blocking.start_ns > work.launched_ns
    WHERE target = 'device' OR target = 'stream' AND NOT recorded
),

marked AS (
    SELECT blocking.*, mark.gpu_op_id, is_passed
    FROM blocking
    INNER JOIN graph.recorded_mark AS mark USING (call_id)
)

SELECT DISTINCT
    call.call_id,
    call.run_id,
    call.trace_id,
    target,
    gpu_op_id,
    work.device,
    work.end_ns,
    call.start_ns,
    call.end_ns,
    coalesce(work.device = own.device AND work.stream = own.stream, false),
    coalesce(work.device = own.device, false),
    true,
    recorded,
    is_passed
FROM (FROM last_launched UNION ALL FROM marked) AS call
INNER JOIN graph.stream_position AS work USING (gpu_op_id)
LEFT JOIN last_of_thread AS own ON call.call_id = own.call_id
UNION ALL
SELECT
    call_id,
    call.run_id,
    call.trace_id,
    'copy',
    gpu_op_id,
    work.device,
    work.end_ns,
    call.start_ns,
    call.end_ns,
    true,
    true,
    regexp_matches(name, '^[a-z0-9]*Memcpy') AND NOT contains(name, 'Async'),
    false,
    false
FROM staging.call AS call
INNER JOIN graph.stream_position AS work USING (call_id)
WHERE call.target = 'memcpy';
