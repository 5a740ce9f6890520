-- Whether a predicted step tells how good its method is: not where half of the host time
-- or more is taken as measured, but in replay, which takes all of it so.
CREATE MACRO prediction.is_judged(
    -- Where host time is from, as in `prediction.method`.
    host_from,
    -- Whether the method simulates.
    is_simulated,
    -- [1] Part of the host time that is taken as measured.
    as_measured_share
) AS (
    host_from IS NULL OR NOT is_simulated OR as_measured_share < 0.5
);
