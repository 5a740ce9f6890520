-- The start delay of GPU work after work on another stream, if it is made to wait: for each
-- kind its known delay (`prediction.delay`), otherwise that of the kind with the most
-- instances, otherwise like work that follows on its stream.
-- One row per trace and kind of GPU work.
-- Key: trace_id, kind.
CREATE VIEW prediction.wait_delay (
    -- The trace.
    trace_id,
    -- Kind of the waiting GPU work.
    kind,
    -- [ns] The delay.
    delay_ns
) AS
WITH
known AS (
    SELECT trace_id, arg_max(median_ns, instance_count) AS median_ns
    FROM prediction.delay
    WHERE cause = 'stream_wait'
    GROUP BY trace_id
)

SELECT
    gap.trace_id,
    gap.kind,
    coalesce(own.median_ns, known.median_ns, gap.median_ns, 0)
FROM graph.typical_delay AS gap
LEFT JOIN known ON gap.trace_id = known.trace_id
LEFT JOIN prediction.delay AS own
    ON gap.trace_id = own.trace_id AND gap.kind = own.kind AND own.cause = 'stream_wait'
WHERE gap.delay = 'stream';
