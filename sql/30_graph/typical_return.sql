-- How long after the work that it waits for a call usually returns, and how long before its
-- recorded end it may: clocks of host and device differ, and on AMD a call returns once a
-- signal is there, up to 10 us before that. Learnt from calls that waited for one span of
-- work plainly: nothing else that they may have waited for ended during the call.
-- One row per trace, and waits or copies.
-- Key: trace_id, is_copy.
CREATE TABLE graph.typical_return (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Whether it is of copies; else of calls that wait.
    is_copy,
    -- [ns] Median from the end of the work to the end of the call; below 0 if that is
    -- before it. NULL if no call waited plainly.
    median_ns,
    -- [ns] How long before the end of the work a call may return: 2 us, or up to 20 us where
    -- calls do.
    early_ns
) AS
WITH
-- Nothing is waited for that ends much later than the call.
ended AS (
    SELECT *, gpu_op_end_ns - end_ns AS early_ns
    FROM graph.wait_candidate
    WHERE
        is_blocking
        -- A short call waited for nothing.
        AND graph.is_well_before(start_ns, end_ns)
        AND graph.is_well_before(start_ns, gpu_op_end_ns)
        AND gpu_op_end_ns <= end_ns + 20_000
),

-- A device is waited for until the last is over, if it is known which device.
plain AS (
    SELECT run_id, trace_id, target = 'copy' AS is_copy, max(early_ns) AS early_ns
    FROM ended
    GROUP BY call_id, run_id, trace_id, target
    HAVING count(*) = 1 OR target = 'device' AND count(DISTINCT device) = 1
)

SELECT
    trace.run_id,
    trace.trace_id,
    kind.is_copy,
    -quantile_disc(early_ns, 0.5),
    greatest(coalesce(quantile_disc(early_ns, 0.95), 0), 2_000)
FROM staging.trace AS trace
CROSS JOIN (VALUES (false), (true)) AS kind (is_copy)
LEFT JOIN plain ON trace.trace_id = plain.trace_id AND kind.is_copy = plain.is_copy
GROUP BY trace.run_id, trace.trace_id, kind.is_copy;
