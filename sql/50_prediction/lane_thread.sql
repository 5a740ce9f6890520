-- The host thread of a lane of host time: itself or, for a worker that fetches ahead
-- (`prediction.prefetch`), the thread that it works for.
CREATE MACRO prediction.lane_thread(
    -- The lane.
    lane
) AS (
    lane % 1_000_000_000_000
);
