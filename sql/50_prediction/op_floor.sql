-- The fixed time of ops of each name on the host, independent of their work: dispatch,
-- checks, library setup. It is the minimum over those with next to nothing to do. For names
-- without such ops, it is the intercept of a line through their times, if they come in
-- three sizes, the largest being twice the smallest: a line with the least squares of
-- relative errors, at least what the quickest names take (`prediction.host_peak`). If the line
-- says more than their shortest takes, it is half way to that. Otherwise it is what ops of any
-- name take then, and at most half of their shortest.
-- One row per trace and name of an op of known work, in a prediction that needs it.
-- Key: trace_id, name.
CREATE VIEW prediction.op_floor (
    -- The trace.
    trace_id,
    -- Name of the op.
    name,
    -- [ns] The fixed part of its self time; an op that takes less has nothing else.
    floor_ns
) AS
WITH
timed AS (
    SELECT
        trace_id,
        name,
        own_ns,
        is_tiny,
        peak.floor_ns,
        peak.least_floor_ns,
        prediction.roofline_ns(flops, bytes, flops_per_second, bytes_per_second) AS work_ns,
        1 / greatest(own_ns, 1) ** 2 AS weight
    FROM prediction.op_time
    INNER JOIN prediction.host_peak AS peak USING (trace_id)
),

fitted AS (
    SELECT
        trace_id,
        name,
        any_value(floor_ns) AS any_ns,
        any_value(least_floor_ns) AS quick_ns,
        min(own_ns) AS least_ns,
        min(own_ns) FILTER (is_tiny) AS tiny_ns,
        count(DISTINCT work_ns) >= 3 AND max(work_ns) >= 2 * min(work_ns) AS is_spread,
        sum(weight) AS w,
        sum(weight * work_ns) AS wx,
        sum(weight * own_ns) AS wy,
        sum(weight * work_ns * work_ns) AS wxx,
        sum(weight * work_ns * own_ns) AS wxy,
        (wxx * wy - wx * wxy) / nullif(w * wxx - wx * wx, 0) AS line_ns
    FROM timed
    GROUP BY trace_id, name
)

SELECT
    trace_id,
    name,
    round(coalesce(
        tiny_ns,
        CASE
            WHEN NOT is_spread OR quick_ns >= least_ns THEN least(any_ns, least_ns / 2)
            WHEN line_ns > least_ns THEN (quick_ns + least_ns) / 2
            ELSE greatest(quick_ns, line_ns)
        END
    ))::BIGINT
FROM fitted;
