-- GPU work that waited for work of another stream: where the profiler recorded it, and
-- where the work started later than its launch and its stream explain, right after work
-- of another stream had ended that was launched before it (an event), or when a kernel
-- that ran beside it was about to end (it had left no room on the device).
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
    -- [ns] Time by which launch and stream do not explain its start; below 0 if they do.
    excess_ns,
    -- `stream_wait` (for an event), or `occupancy` of the device by the awaited work.
    reason,
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

-- By how much work began later than its launch and its stream explain.
explained AS (
    SELECT
        work.*,
        lag(launch_start_ns) OVER (
            PARTITION BY work.trace_id, device, stream ORDER BY position
        ) AS previous_launch_start_ns,
        work.start_ns - greatest(after_launch_ns, after_stream_ns) AS excess_ns
    FROM graph.stream_position AS work
    INNER JOIN graph.usual_start USING (kernel_id)
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

beside AS (
    SELECT late.*, other.device AS other_device, other.stream AS other_stream
    FROM late
    INNER JOIN staging.stream AS other
        ON
            late.trace_id = other.trace_id
            AND (late.device <> other.device OR late.stream <> other.stream)
),

-- A stream keeps its order: the last work on it that was launched before and over before
-- is the earlier of the last launched and the last over.
event_wait AS (
    SELECT
        beside.*,
        'stream_wait' AS reason,
        least(over.position, launched.position) AS awaited_position
    FROM beside
    ASOF INNER JOIN graph.stream_position AS over
        ON
            beside.trace_id = over.trace_id
            AND beside.other_device = over.device
            AND beside.other_stream = over.stream
            -- Starts and ends of one device differ by their rounding only.
            AND beside.start_ns + 1_000 >= over.end_ns
    ASOF INNER JOIN graph.launched_work AS launched
        ON
            beside.trace_id = launched.trace_id
            AND beside.other_device = launched.device
            AND beside.other_stream = launched.stream
            AND beside.launch_end_ns > launched.launched_ns
),

-- The last blocks of a kernel leave room before it ends.
occupancy_wait AS (
    SELECT beside.*, 'occupancy' AS reason, running.position AS awaited_position
    FROM beside
    ASOF INNER JOIN graph.stream_position AS running
        ON
            beside.trace_id = running.trace_id
            AND beside.other_device = running.device
            AND beside.other_stream = running.stream
            AND beside.start_ns > running.start_ns
    WHERE
        beside.kind = 'kernel'
        AND running.kind = 'kernel'
        AND beside.device = beside.other_device
        AND beside.excess_ns > 15_000
        AND running.end_ns - beside.start_ns
        BETWEEN 0 AND greatest(2_000, 0.05 * (running.end_ns - running.start_ns))
),

recorded AS (
    SELECT
        kernel_id,
        explained.run_id,
        explained.trace_id,
        awaited_kernel_id,
        awaited.end_ns AS awaited_end_ns,
        explained.start_ns,
        excess_ns,
        'stream_wait' AS reason,
        true AS recorded
    FROM graph.recorded_stream_wait
    INNER JOIN explained USING (kernel_id)
    INNER JOIN graph.stream_position AS awaited ON awaited_kernel_id = awaited.kernel_id
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
        late.reason,
        false AS recorded
    FROM (FROM event_wait UNION ALL FROM occupancy_wait) AS late
    INNER JOIN graph.stream_position AS awaited
        ON
            late.trace_id = awaited.trace_id
            AND late.other_device = awaited.device
            AND late.other_stream = awaited.stream
            AND late.awaited_position = awaited.position
    WHERE
        -- Waits follow the order of beginnings, so that none can wait for itself.
        awaited.start_ns < late.start_ns
        -- It must explain what launch and stream do not.
        AND awaited.end_ns > late.start_ns - late.excess_ns
)

SELECT *
FROM (FROM recorded UNION ALL FROM inferred)
QUALIFY row_number() OVER (
    PARTITION BY kernel_id
    ORDER BY
        -- An event that was over long before explains less than a device that was full.
        NOT recorded AND start_ns - awaited_end_ns > 15_000,
        reason = 'occupancy',
        awaited_end_ns DESC,
        recorded DESC,
        awaited_kernel_id
) = 1;
