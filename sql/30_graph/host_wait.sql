-- What the host waited for in calls that block it: synchronisation, and copies that
-- return only when they are done. Where the profiler recorded the stream or event it is
-- taken; else the wait is for the work that ended last before the call returned, among
-- what had been launched when the call began.
-- One row per blocking call whose cause was found.
-- Key: launch_id.
CREATE TABLE graph.host_wait (
    -- The call that blocks.
    launch_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- `stream`, `device`, `event` or `copy`.
    target,
    -- The GPU work it waited for.
    kernel_id,
    -- [ns] End of that work.
    kernel_end_ns,
    -- [ns] Begin of the call.
    start_ns,
    -- [ns] End of the call.
    end_ns,
    -- Whether the work was still running when the call began.
    is_blocked,
    -- Whether the profiler recorded what was waited for.
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
    ASOF INNER JOIN (
        -- Work without a launch in the trace was launched before it, in its order.
        SELECT
            *,
            coalesce(launch_start_ns, position - 1_000_000_000_000_000_000)
            AS launched_ns
        FROM graph.stream_position
        -- Of a graph's work on a stream the last counts.
        QUALIFY
            launch_id IS NULL
            OR row_number() OVER (
                PARTITION BY launch_id, device, stream ORDER BY position DESC
            ) = 1
    ) AS work
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
    QUALIFY row_number() OVER (
        PARTITION BY launch_id ORDER BY kernel_end_ns DESC, kernel_id
    ) = 1
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
    QUALIFY row_number() OVER (
        PARTITION BY call.launch_id ORDER BY work.end_ns DESC, work.kernel_id
    ) = 1
)

SELECT
    launch_id,
    run_id,
    trace_id,
    target,
    kernel_id,
    kernel_end_ns,
    start_ns,
    end_ns,
    kernel_end_ns > start_ns AS is_blocked,
    recorded
FROM (FROM synchronised UNION ALL BY NAME FROM copied);
