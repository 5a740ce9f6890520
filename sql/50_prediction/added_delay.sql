-- The start delay of GPU work after work that a scenario puts before it: an edit of delays
-- without fields also applies to these delays, which no trace has.
-- One row per variant, trace, kind of GPU work and kind of predecessor.
-- Key: variant_id, trace_id, kind, cause.
CREATE VIEW prediction.added_delay (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- Kind of the delayed GPU work.
    kind,
    -- `stream` (the previous work on its stream) or `stream_wait` (work on another stream:
    -- `prediction.wait_delay`).
    cause,
    -- [ns] The delay.
    delay_ns
) AS
WITH
usual AS (
    SELECT trace_id, kind, 'stream_wait' AS cause, delay_ns
    FROM prediction.wait_delay
    UNION ALL
    SELECT trace_id, kind, delay, median_ns
    FROM graph.typical_delay
    WHERE delay = 'stream'
),

everywhere AS (
    SELECT scenario, cause, product(factor) AS factor, sum(add_ns)::BIGINT AS add_ns
    FROM prediction.scenario_edit
    INNER JOIN (VALUES ('stream'), ('stream_wait')) AS known (cause)
        ON coalesce(type, cause) = cause
    WHERE
        target = 'delay'
        AND coalesce(
            name, op, annotation, function, shape, instance, module, part, phase, step, rank,
            stream, device, process_group, thread, nodes::VARCHAR
        ) IS NULL
        AND NOT chooses_awaited
    GROUP BY scenario, cause
)

SELECT
    variant_id,
    trace_id,
    kind,
    cause,
    prediction.edited_delay_ns(delay_ns, factor, add_ns)
FROM usual
CROSS JOIN prediction.variant AS variant
LEFT JOIN everywhere USING (scenario, cause)
WHERE is_simulated;
