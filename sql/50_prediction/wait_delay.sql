-- How long after work of another stream GPU work starts, where it is made to wait: for each
-- kind what is known of it (`prediction.delay`), otherwise of the kind that most is known
-- of, otherwise as work follows on its stream.
-- One row per trace and kind of GPU work.
-- Key: trace_id, kind.
CREATE VIEW prediction.wait_delay (
    -- The trace.
    trace_id,
    -- Kind of the GPU work that waits.
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
