-- GPU work that waited for work of another stream: where the profiler recorded it, and
-- where the work started later than its launch and its stream explain, right after work
-- of another stream had ended.
-- One row per piece of GPU work that waited.
-- Key: kernel_id.
CREATE TABLE graph.stream_wait (
    -- The GPU work that waited.
    kernel_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The GPU work that it waited for.
    awaited_kernel_id,
    -- [ns] End of the awaited work.
    awaited_end_ns,
    -- [ns] Begin of the waiting work.
    start_ns,
    -- [ns] Time by which it started later than launch and stream explain.
    excess_ns,
    -- Whether the profiler recorded the wait.
    recorded
) AS
WITH
-- Calls that make a stream wait for an event, per thread.
wait_call AS (
    SELECT thread_id, start_ns AS wait_call_ns
    FROM staging.launch
    WHERE name LIKE '%StreamWaitEvent%'
),

explained AS (
    SELECT
        work.*,
        lag(launch_start_ns) OVER (
            PARTITION BY work.trace_id, device, stream ORDER BY position
        ) AS previous_launch_start_ns,
        work.start_ns - greatest(
            launch_start_ns + coalesce(launch.median_ns, 0),
            previous_end_ns + coalesce(stream_gap.median_ns, 0)
        ) AS excess_ns
    FROM graph.stream_position AS work
    LEFT JOIN graph.usual_delay AS launch
        ON
            work.trace_id = launch.trace_id
            AND work.kind = launch.kind
            AND launch.delay = 'launch'
    LEFT JOIN graph.usual_delay AS stream_gap
        ON
            work.trace_id = stream_gap.trace_id
            AND work.kind = stream_gap.kind
            AND stream_gap.delay = 'stream'
),

-- A wait of this length is told by time alone; a shorter one only after a call for it.
late AS (
    SELECT explained.*
    FROM explained
    ASOF LEFT JOIN wait_call
        ON
            explained.launch_thread_id = wait_call.thread_id
            AND explained.launch_start_ns >= wait_call.wait_call_ns
    WHERE
        launch_id IS NOT NULL
        AND excess_ns > CASE
            WHEN wait_call_ns > coalesce(previous_launch_start_ns, 0) THEN 1_000
            ELSE 15_000
        END
),

-- The first work launched on the waiting stream after the call waits for the last work
-- launched on the awaited stream before the event was recorded.
recorded_call AS (
    SELECT
        recorded.trace_id,
        recorded.device,
        recorded.stream,
        recorded.awaited_stream,
        waiting_call.start_ns AS wait_call_ns,
        record_call.start_ns AS record_call_ns
    FROM staging.device_wait AS recorded
    INNER JOIN staging.launch AS waiting_call
        ON
            recorded.trace_id = waiting_call.trace_id
            AND recorded.correlation = waiting_call.correlation
    INNER JOIN staging.launch AS record_call
        ON
            recorded.trace_id = record_call.trace_id
            AND recorded.event_record_correlation = record_call.correlation
    WHERE recorded.target = 'stream_wait' AND recorded.stream <> recorded.awaited_stream
),

recorded_waiting AS (
    SELECT recorded_call.*, work.kernel_id, work.run_id, work.start_ns, work.excess_ns
    FROM recorded_call
    ASOF INNER JOIN (SELECT * FROM explained WHERE launch_id IS NOT NULL) AS work
        ON
            recorded_call.trace_id = work.trace_id
            AND recorded_call.device = work.device
            AND recorded_call.stream = work.stream
            AND recorded_call.wait_call_ns <= work.launch_start_ns
),

recorded_wait AS (
    SELECT
        waiting.kernel_id,
        waiting.run_id,
        waiting.trace_id,
        awaited.kernel_id AS awaited_kernel_id,
        awaited.end_ns AS awaited_end_ns,
        waiting.start_ns,
        waiting.excess_ns,
        true AS recorded
    FROM recorded_waiting AS waiting
    ASOF INNER JOIN (
        SELECT * FROM graph.stream_position WHERE launch_id IS NOT NULL
    ) AS awaited
        ON
            waiting.trace_id = awaited.trace_id
            AND waiting.device = awaited.device
            AND waiting.awaited_stream = awaited.stream
            AND waiting.record_call_ns >= awaited.launch_start_ns
    WHERE
        awaited.end_ns <= waiting.start_ns + 1_000
        AND awaited.start_ns < waiting.start_ns
),

inferred AS (
    SELECT
        late.kernel_id,
        late.run_id,
        late.trace_id,
        awaited.kernel_id AS awaited_kernel_id,
        awaited.end_ns AS awaited_end_ns,
        late.start_ns,
        late.excess_ns,
        false AS recorded
    FROM (
        SELECT late.*, other.device AS other_device, other.stream AS other_stream
        FROM late
        INNER JOIN staging.stream AS other
            ON
                late.trace_id = other.trace_id
                AND (late.device <> other.device OR late.stream <> other.stream)
    ) AS late
    ASOF INNER JOIN graph.stream_position AS awaited
        ON
            late.trace_id = awaited.trace_id
            AND late.other_device = awaited.device
            AND late.other_stream = awaited.stream
            -- Starts and ends of one device differ by their rounding only.
            AND late.start_ns + 1_000 >= awaited.end_ns
    WHERE
        -- Work without a launch in the trace was launched before it.
        (awaited.launch_start_ns IS NULL OR awaited.launch_start_ns < late.launch_end_ns)
        -- Waits follow the order of beginnings, so that none can wait for itself.
        AND awaited.start_ns < late.start_ns
        -- It must explain what launch and stream do not.
        AND awaited.end_ns > late.start_ns - late.excess_ns
    QUALIFY row_number() OVER (
        PARTITION BY late.kernel_id ORDER BY awaited.end_ns DESC, awaited.kernel_id
    ) = 1
)

SELECT
    kernel_id,
    run_id,
    trace_id,
    awaited_kernel_id,
    awaited_end_ns,
    start_ns,
    excess_ns,
    recorded
FROM (FROM recorded_wait UNION ALL FROM inferred)
QUALIFY row_number() OVER (
    PARTITION BY kernel_id ORDER BY awaited_end_ns DESC, recorded DESC, awaited_kernel_id
) = 1;
