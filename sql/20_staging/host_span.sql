-- How long each trace lasts on the host: from the start of the first user range, op or call to
-- the end of the last.
-- One row per trace with any of these.
-- Key: trace_id.
CREATE VIEW staging.host_span (
    -- The trace.
    trace_id,
    -- [ns] The time.
    span_ns
) AS
SELECT
    trace_id,
    least(max(end_ns)::HUGEINT - min(start_ns), 9_223_372_036_854_775_807)::BIGINT
FROM (
    SELECT trace_id, start_ns, end_ns FROM staging.annotation
    UNION ALL
    SELECT trace_id, start_ns, end_ns FROM staging.op
    UNION ALL
    SELECT trace_id, start_ns, end_ns FROM staging.call
)
GROUP BY trace_id;
