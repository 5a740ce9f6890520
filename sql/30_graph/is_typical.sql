-- Whether a delay is the typical one of its trace: to a microsecond.
CREATE MACRO graph.is_typical(
    -- [ns] The delay.
    delay_ns,
    -- [ns] The typical one.
    typical_ns
) AS (
    abs(delay_ns - typical_ns) <= 1_000
);
