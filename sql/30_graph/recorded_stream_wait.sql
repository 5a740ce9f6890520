-- Waits of streams for events as the profiler recorded them: the first work launched on
-- the waiting stream after the call waits for the last work launched on the awaited
-- stream before the event was recorded.
-- One row per recorded wait of a stream for another that found work on both.
-- Key: kernel_id, awaited_kernel_id.
CREATE VIEW graph.recorded_stream_wait (
    -- The GPU work that waited.
    kernel_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The GPU work that it waited for.
    awaited_kernel_id
) AS
WITH
launched AS (
    SELECT * FROM graph.stream_position WHERE launch_id IS NOT NULL
),

call AS (
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
)

SELECT DISTINCT waiting.kernel_id, waiting.run_id, waiting.trace_id, awaited.kernel_id
FROM call
ASOF INNER JOIN launched AS waiting
    ON
        call.trace_id = waiting.trace_id
        AND call.device = waiting.device
        AND call.stream = waiting.stream
        AND call.wait_call_ns <= waiting.launch_start_ns
ASOF INNER JOIN launched AS awaited
    ON
        call.trace_id = awaited.trace_id
        AND call.device = awaited.device
        AND call.awaited_stream = awaited.stream
        AND call.record_call_ns >= awaited.launch_start_ns
WHERE awaited.end_ns <= waiting.start_ns + 1_000 AND awaited.start_ns < waiting.start_ns;
