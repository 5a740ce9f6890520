-- The traces that are being computed; all of them when a user reads it.
-- One row per trace.
-- Key: trace_id.
CREATE VIEW staging.computing (
    -- The trace.
    trace_id
) AS
SELECT trace_id
FROM raw.trace
WHERE
    getvariable('computing') IS NULL
    OR list_contains(getvariable('computing')::BIGINT[], trace_id);
