-- Whether a time is so much earlier than another, 10 us, that neither clocks nor chance
-- explain it.
CREATE MACRO graph.is_well_before(
    -- [ns] The time.
    earlier_ns,
    -- [ns] The other one.
    later_ns
) AS (
    earlier_ns + 10_000 <= later_ns
);
