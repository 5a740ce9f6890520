-- [1] How much of what hardware does at best some work reaches: the time that it would take
-- at the peak, of the time that it took.
CREATE MACRO prediction.peak_share(
    -- What each row has to do, in FLOP or B; NULL where that is not known.
    amount,
    -- What is done in a second at best.
    peak_per_second,
    -- [ns] Time of each row.
    row_ns
) AS (
    sum(amount / peak_per_second) * 1e9
    / nullif(sum(row_ns) FILTER (amount / peak_per_second IS NOT NULL), 0)
);
