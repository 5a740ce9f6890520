-- Whether other runs can learn from a span of host time: only overheads, without gaps of
-- 200 us and more between ops, which belong to the program (Lin et al. 2022 also exclude
-- them from shared overheads).
CREATE MACRO overhead.is_portable(
    -- Type of the span.
    span_type,
    -- [ns] Its duration.
    span_ns
) AS (
    span_type LIKE 'T_' AND (span_type <> 'T1' OR span_ns < 200_000)
);
