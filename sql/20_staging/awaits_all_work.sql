-- Whether a call returns when all earlier GPU work of its thread has ended: a wait for the
-- device, or for the only stream. In traces of one device.
CREATE MACRO staging.awaits_all_work(
    -- Kind of the call.
    kind,
    -- What it waits for.
    target,
    -- Number of streams in the trace.
    stream_count
) AS (
    kind = 'wait' AND (target = 'device' OR (target = 'stream' AND stream_count = 1))
);
