-- What the profiler recorded about waits on devices, if enabled (cuda_sync). Waits for an
-- event that it did not see recorded are left out: nothing says what they are for.
-- One row per recorded wait.
-- Key: device_wait_id.
CREATE TABLE staging.device_wait (
    -- The wait's event.
    device_wait_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `stream`, `event`, `device` (the host waits) or `stream_wait` (a stream waits).
    target,
    -- Device.
    device,
    -- The waiting stream, for `stream_wait`.
    stream,
    -- The awaited stream; NULL for a whole device.
    awaited_stream,
    -- Correlation of the call that recorded the awaited event.
    event_record_correlation,
    -- Correlation of the waiting call.
    correlation
) AS
SELECT
    event_id AS device_wait_id,
    raw.trace.run_id,
    trace_id,
    CASE args ->> '$.cuda_sync_kind'
        WHEN 'Stream Sync' THEN 'stream'
        WHEN 'Event Sync' THEN 'event'
        WHEN 'Context Sync' THEN 'device'
        WHEN 'Stream Wait Event' THEN 'stream_wait'
    END AS target,
    try_cast(args ->> '$.device' AS BIGINT) AS device,
    CASE WHEN target = 'stream_wait' THEN try_cast(args ->> '$.stream' AS BIGINT) END
    AS stream,
    CASE
        WHEN target = 'stream' THEN try_cast(args ->> '$.stream' AS BIGINT)
        WHEN target IN ('event', 'stream_wait')
            THEN try_cast(args ->> '$.wait_on_stream' AS BIGINT)
    END AS awaited_stream,
    try_cast(args ->> '$.wait_on_cuda_event_record_corr_id' AS BIGINT)
    AS event_record_correlation,
    try_cast(args ->> '$.correlation' AS BIGINT) AS correlation
FROM staging.slice
INNER JOIN raw.trace USING (trace_id)
WHERE cat = 'cuda_sync' AND (target NOT IN ('event', 'stream_wait') OR awaited_stream >= 0);
