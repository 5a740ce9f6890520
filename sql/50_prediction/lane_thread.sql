-- The host thread that a lane of host time is of: itself or, of a worker that fetches ahead
-- (`prediction.prefetch`), the thread that it does so for.
CREATE MACRO prediction.lane_thread(
    -- The lane.
    lane
) AS (
    lane % 1_000_000_000_000
);
