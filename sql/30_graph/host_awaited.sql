-- All GPU work that a blocking call waits for: the last on each of its streams, and the
-- copies after which a launch returns. A recorded stream or event is used if there is one.
-- Otherwise, the wait is for what had been launched when the call started; for an event,
-- for what ended before the call returned. If several streams or devices are possible, it
-- is the one that explains the end of the call, or the one that the thread used last.
-- One row per blocking call and GPU op.
-- Key: call_id, gpu_op_id.
CREATE TABLE graph.host_awaited (
    -- The blocking call.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `stream`, `device`, `event`, `copy` or `queue`.
    target,
    -- The GPU op.
    gpu_op_id,
    -- [ns] End of that work.
    gpu_op_end_ns,
    -- [ns] Start of the call.
    start_ns,
    -- [ns] End of the call.
    end_ns,
    -- Whether the profiler recorded what the call waits for.
    recorded,
    -- Whether this is only because its stream had been made to wait for that work.
    is_passed
) AS
WITH
-- An event may have been recorded before the last work of its stream: it is the work that
-- ended the typical time before the call returned, otherwise what ended last.
ended AS (
    SELECT
        call.call_id,
        call.run_id,
        call.trace_id,
        call.target,
        call.start_ns,
        call.end_ns,
        stream.device,
        stream.stream,
        unnest([coalesce(1_000 - median_ns, early_ns), early_ns]) AS allowed_ns
    FROM staging.call AS call
    INNER JOIN staging.stream AS stream USING (trace_id)
    INNER JOIN graph.typical_return AS typical
        ON call.trace_id = typical.trace_id AND NOT is_copy
    ANTI JOIN staging.device_wait AS recorded
        ON
            call.trace_id = recorded.trace_id
            AND call.correlation = recorded.correlation
    WHERE call.target = 'event' AND kind = 'wait'
),

candidate AS (
    SELECT
        call_id,
        run_id,
        trace_id,
        target,
        gpu_op_id,
        CASE WHEN target = 'device' THEN -1 - device ELSE gpu_op_id END AS meant,
        gpu_op_end_ns,
        start_ns,
        end_ns,
        CASE WHEN target = 'device' THEN is_own_device ELSE is_own_stream END AS is_own,
        is_blocking,
        recorded,
        is_passed
    FROM graph.wait_candidate
    UNION ALL
    SELECT
        ended.call_id,
        ended.run_id,
        ended.trace_id,
        target,
        work.gpu_op_id,
        work.gpu_op_id,
        work.end_ns,
        ended.start_ns,
        ended.end_ns,
        false,
        true,
        false,
        false
    FROM ended
    ASOF INNER JOIN graph.stream_position AS work
        ON
            ended.trace_id = work.trace_id
            AND ended.device = work.device
            AND ended.stream = work.stream
            AND ended.end_ns + ended.allowed_ns >= work.end_ns
    WHERE work.launch_start_ns IS NULL OR work.launch_start_ns < ended.start_ns
),

-- What had ended when the call returned. A copy by a call that need not block is awaited if
-- it had ended, or the call took long.
ended_before AS (
    SELECT
        candidate.*,
        max(gpu_op_end_ns) OVER (PARTITION BY call_id, meant) AS last_end_ns,
        last_end_ns > start_ns AS was_running,
        coalesce(graph.is_typical(end_ns - last_end_ns, median_ns), false) AS fits,
        abs(end_ns - last_end_ns - median_ns) AS off_ns
    FROM candidate
    INNER JOIN graph.typical_return AS typical
        ON
            candidate.trace_id = typical.trace_id
            AND (candidate.target = 'copy') = typical.is_copy
    WHERE
        gpu_op_end_ns <= end_ns + CASE
            WHEN is_blocking OR end_ns - start_ns > 20_000 THEN early_ns
            ELSE 0
        END
)

SELECT
    call_id,
    run_id,
    trace_id,
    target,
    gpu_op_id,
    gpu_op_end_ns,
    start_ns,
    end_ns,
    recorded,
    is_passed
FROM (
    SELECT *
    FROM ended_before
    -- For unrecorded waits: what explains the end of the call best, otherwise what delayed a
    -- long call last, otherwise the thread's last stream.
    QUALIFY
        target = 'copy'
        OR recorded
        OR dense_rank() OVER (
            PARTITION BY call_id
            ORDER BY
                CASE
                    WHEN fits AND is_own THEN 1
                    WHEN fits AND was_running THEN 2
                    WHEN was_running AND graph.is_well_before(start_ns, end_ns) THEN 3
                    WHEN is_own THEN 4
                    ELSE 5
                END,
                CASE WHEN fits THEN off_ns END,
                last_end_ns DESC,
                meant
        ) = 1
)
UNION ALL
-- A copy that returns when it is done waits for that.
SELECT
    call_id,
    run_id,
    trace_id,
    'queue',
    gpu_op_id,
    gpu_op_end_ns,
    start_ns,
    end_ns,
    false,
    false
FROM graph.full_queue
WHERE call_id NOT IN (SELECT call_id FROM ended_before);
