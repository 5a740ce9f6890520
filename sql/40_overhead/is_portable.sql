-- Whether other runs can learn from a span of host time: overheads alone, without those gaps
-- of 200 us and more between ops that are the program's (Lin et al. 2022 leave them out of
-- shared overheads, too).
CREATE MACRO overhead.is_portable(
    -- Type of the span.
    span_type,
    -- [ns] Its duration.
    span_ns
) AS (
    span_type LIKE 'T_' AND (span_type <> 'T1' OR span_ns < 200_000)
);
