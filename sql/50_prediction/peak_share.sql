-- [1] Share of the hardware's peak that some work reaches: the time that it would take at
-- the peak, divided by the time that it took.
CREATE MACRO prediction.peak_share(
    -- The work of each row, in FLOP or B; NULL if unknown.
    amount,
    -- The peak rate per second.
    peak_per_second,
    -- [ns] Time of each row.
    row_ns
) AS (
    sum(amount / peak_per_second) * 1e9
    / nullif(sum(row_ns) FILTER (amount / peak_per_second IS NOT NULL), 0)
);
