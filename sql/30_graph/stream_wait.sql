-- GPU work that waited for work on another stream: recorded by the profiler, or inferred if
-- the work started later than its launch and its stream explain, either right after
-- earlier-launched work on another stream ended (an event), or when a concurrent kernel was
-- about to end (it had left no room on the device).
-- One row per GPU op that waited.
-- Key: gpu_op_id.
CREATE TABLE graph.stream_wait (
    -- The GPU work that waited.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU work that it waited for.
    awaited_gpu_op_id,
    -- [ns] End of the awaited work.
    awaited_end_ns,
    -- [ns] Start of the waiting work.
    start_ns,
    -- [ns] Delay of its start that launch and stream do not explain; negative if they do.
    excess_ns,
    -- `stream_wait` (for an event), or `occupancy` of the device by the awaited work.
    reason,
    -- Whether the profiler recorded the wait.
    recorded
) AS
WITH
beside AS (
    SELECT late.*, other.device AS other_device, other.stream AS other_stream
    FROM graph.late_work AS late
    INNER JOIN staging.stream AS other
        ON
            late.trace_id = other.trace_id
            AND (late.device <> other.device OR late.stream <> other.stream)
),

-- A stream runs in order: the last work on it that was launched before and over before is
-- the earlier of the last launched and the last over.
event_wait AS (
    SELECT
        beside.*,
        'stream_wait' AS reason,
        least(ended.position, launched.position) AS awaited_position
    FROM (SELECT *, unnest([-1_000, typical_wait_ns - 1_000]) AS before_ns FROM beside) AS beside
    ASOF INNER JOIN graph.stream_position AS ended
        ON
            beside.trace_id = ended.trace_id
            AND beside.other_device = ended.device
            AND beside.other_stream = ended.stream
            -- Starts and ends on one device differ only by their rounding.
            AND beside.start_ns - before_ns >= ended.end_ns
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
        AND graph.shows_wait(beside.excess_ns)
        AND running.end_ns - beside.start_ns
        BETWEEN 0 AND greatest(2_000, 0.05 * (running.end_ns - running.start_ns))
),

recorded AS (
    SELECT
        gpu_op_id,
        work.run_id,
        work.trace_id,
        awaited_gpu_op_id,
        awaited.end_ns AS awaited_end_ns,
        work.start_ns,
        work.start_ns - greatest(after_launch_ns, after_stream_ns) AS excess_ns,
        'stream_wait' AS reason,
        true AS recorded,
        true AS is_typical
    FROM graph.recorded_stream_wait
    INNER JOIN graph.stream_position AS work USING (gpu_op_id)
    INNER JOIN graph.typical_start USING (gpu_op_id)
    INNER JOIN graph.stream_position AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
),

inferred AS (
    SELECT
        late.gpu_op_id,
        late.run_id,
        late.trace_id,
        awaited.gpu_op_id AS awaited_gpu_op_id,
        awaited.end_ns AS awaited_end_ns,
        late.start_ns,
        late.excess_ns,
        late.reason,
        false AS recorded,
        graph.is_typical(late.start_ns - awaited.end_ns, typical_wait_ns) AS is_typical
    FROM (FROM event_wait UNION ALL BY NAME FROM occupancy_wait) AS late
    INNER JOIN graph.stream_position AS awaited
        ON
            late.trace_id = awaited.trace_id
            AND late.other_device = awaited.device
            AND late.other_stream = awaited.stream
            AND late.awaited_position = awaited.position
    WHERE
        -- Waits follow the order of starts, so none can wait for itself.
        awaited.start_ns < late.start_ns
        -- It must explain what launch and stream do not, with the wait's own delay.
        AND (awaited.end_ns > late.start_ns - late.excess_ns OR is_typical)
)

SELECT * EXCLUDE (is_typical)
FROM (FROM recorded UNION ALL FROM inferred)
QUALIFY row_number() OVER (
    PARTITION BY gpu_op_id
    ORDER BY
        -- An event that was over long before is a weaker explanation than a full device.
        NOT recorded AND graph.shows_wait(start_ns - awaited_end_ns),
        reason = 'occupancy',
        NOT is_typical,
        awaited_end_ns DESC,
        recorded DESC,
        awaited_gpu_op_id
) = 1;
