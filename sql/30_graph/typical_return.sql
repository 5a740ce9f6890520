-- Typical return delay of a call after the work that it waits for, and how long before the
-- recorded end it may return: clocks of host and device differ, and on AMD a call returns
-- once a signal arrives, up to 10 us earlier. Learned from calls that clearly waited for
-- one span of work: nothing else that they could have waited for ended during the call.
-- One row per trace, for waits and for copies.
-- Key: trace_id, is_copy.
CREATE TABLE graph.typical_return (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Whether it is for copies; otherwise for calls that wait.
    is_copy,
    -- [ns] Median from the end of the work to the end of the call; negative if the call
    -- ends before. NULL if no call clearly waited.
    median_ns,
    -- [ns] How long before the end of the work a call may return: 2 us, or up to 20 us if
    -- calls do; 0 if three calls or more return later than the work ends.
    early_ns
) AS
WITH
-- A call does not wait for work that ends much later.
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

-- A wait on a device lasts until the last work ends, if the device is known.
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
    greatest(
        coalesce(quantile_disc(early_ns, 0.95), 0),
        CASE WHEN count(early_ns) >= 3 AND max(early_ns) < 0 THEN 0 ELSE 2_000 END
    )
FROM staging.trace AS trace
CROSS JOIN (VALUES (false), (true)) AS kind (is_copy)
LEFT JOIN plain ON trace.trace_id = plain.trace_id AND kind.is_copy = plain.is_copy
GROUP BY trace.run_id, trace.trace_id, kind.is_copy;
