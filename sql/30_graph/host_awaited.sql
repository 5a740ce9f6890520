-- All GPU work that a blocking call waits for: the last on each stream that it is for,
-- and the copies that a launch returns behind. Where the profiler recorded the stream or
-- event it is taken; else the wait is for what had been launched when the call began, of
-- an event for what ended last before the call returned.
-- One row per blocking call and piece of GPU work.
-- Key: launch_id, kernel_id.
CREATE TABLE graph.host_awaited (
    -- The call that blocks.
    launch_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- `stream`, `device`, `event`, `copy` or `queue`.
    target,
    -- The GPU work.
    kernel_id,
    -- [ns] End of that work.
    kernel_end_ns,
    -- [ns] Begin of the call.
    start_ns,
    -- [ns] End of the call.
    end_ns,
    -- Whether the profiler recorded what is waited for.
    recorded
) AS
WITH
blocking AS (
    SELECT
        call.launch_id,
        call.run_id,
        call.trace_id,
        call.target,
        call.start_ns,
        call.end_ns,
        recorded_wait.awaited_stream,
        recorded_wait.device,
        coalesce(event_record.start_ns, call.start_ns) AS launched_before_ns,
        recorded_wait.correlation IS NOT NULL AS recorded
    FROM staging.launch AS call
    LEFT JOIN staging.device_wait AS recorded_wait
        ON
            call.trace_id = recorded_wait.trace_id
            AND call.correlation = recorded_wait.correlation
            AND call.target = recorded_wait.target
    LEFT JOIN staging.launch AS event_record
        ON
            recorded_wait.trace_id = event_record.trace_id
            AND recorded_wait.event_record_correlation = event_record.correlation
    WHERE call.kind = 'wait'
),

per_stream AS (
    SELECT blocking.*, staging.stream.device AS on_device, staging.stream.stream AS on_stream
    FROM blocking
    INNER JOIN staging.stream
        ON
            blocking.trace_id = staging.stream.trace_id
            AND coalesce(blocking.device = staging.stream.device, true)
            AND coalesce(blocking.awaited_stream = staging.stream.stream, true)
),

-- In-order streams: the last work launched on a stream is the last to end there.
last_launched AS (
    SELECT per_stream.*, work.kernel_id, work.end_ns AS kernel_end_ns
    FROM per_stream
    ASOF INNER JOIN graph.launched_work AS work
        ON
            per_stream.trace_id = work.trace_id
            AND per_stream.on_device = work.device
            AND per_stream.on_stream = work.stream
            AND per_stream.launched_before_ns > work.launched_ns
    WHERE target <> 'event' OR recorded
),

-- An event may have been recorded before the last work of its stream.
last_ended AS (
    SELECT per_stream.*, work.kernel_id, work.end_ns AS kernel_end_ns
    FROM per_stream
    ASOF INNER JOIN graph.stream_position AS work
        ON
            per_stream.trace_id = work.trace_id
            AND per_stream.on_device = work.device
            AND per_stream.on_stream = work.stream
            AND per_stream.end_ns + 2_000 >= work.end_ns
    WHERE
        target = 'event'
        AND NOT recorded
        AND (
            work.launch_start_ns IS NULL OR work.launch_start_ns < per_stream.start_ns
        )
),

synchronised AS (
    SELECT * EXCLUDE (awaited_stream, device, launched_before_ns, on_device, on_stream)
    FROM (FROM last_launched UNION ALL FROM last_ended)
    -- Clocks of host and device differ by their rounding.
    WHERE kernel_end_ns <= end_ns + 2_000
),

copied AS (
    SELECT
        call.launch_id,
        call.run_id,
        call.trace_id,
        'copy' AS target,
        call.start_ns,
        call.end_ns,
        false AS recorded,
        work.kernel_id,
        work.end_ns AS kernel_end_ns
    FROM staging.launch AS call
    INNER JOIN graph.stream_position AS work USING (launch_id)
    WHERE call.target = 'memcpy' AND work.end_ns <= call.end_ns
)

SELECT DISTINCT
    launch_id,
    run_id,
    trace_id,
    target,
    kernel_id,
    kernel_end_ns,
    start_ns,
    end_ns,
    recorded
FROM (
    FROM synchronised
    UNION ALL BY NAME
    FROM copied
    UNION ALL BY NAME
    -- A copy that returns when it is done waits for that.
    SELECT *, 'queue' AS target, false AS recorded
    FROM graph.full_queue
    WHERE launch_id NOT IN (SELECT launch_id FROM copied)
)
QUALIFY
    target = 'device'
    OR row_number() OVER (
        PARTITION BY launch_id ORDER BY kernel_end_ns DESC, kernel_id
    ) = 1;
