-- Whether a predicted step is evidence of its method's accuracy: not if half of the host
-- time or more is taken as measured, except in replay, which takes all of it.
CREATE MACRO prediction.is_judged(
    -- Source of host times, as in `prediction.method`.
    host_from,
    -- Whether the method simulates.
    is_simulated,
    -- [1] Share of the host time that is taken as measured.
    as_measured_share
) AS (
    host_from IS NULL OR NOT is_simulated OR as_measured_share < 0.5
);
