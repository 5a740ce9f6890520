-- Whether other runs can learn from a span of host time: only overheads, without long gaps
-- between ops, which belong to the program.
CREATE MACRO overhead.is_portable(
    -- Type of the span.
    span_type,
    -- [ns] Its duration.
    span_ns
) AS (
    span_type LIKE 'T_' AND (span_type <> 'T1' OR NOT graph.is_long_gap(span_ns))
);
