-- Launches that stalled: the call took longer than usual, and its work started only when it
-- was over. A module is loaded, or memory is staged for a copy, which then lasts into the
-- copy.
-- One row per launch that stalled.
-- Key: call_id.
CREATE TABLE graph.stalled_launch (
    -- The launch.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] Time beyond that of typical calls (`graph.delay_cap_ns`).
    stalled_ns
) AS
WITH
-- The first work of each launch, and the call's duration without a copy that it fed.
call AS (
    SELECT
        call_id,
        call.run_id,
        call.trace_id,
        work.kind,
        work.kind = 'memcpy' OR work.start_ns >= call.end_ns AS is_before,
        call.wait_start_ns - call.start_ns - CASE
            WHEN work.kind = 'memcpy' AND work.start_ns < call.end_ns
                THEN work.end_ns - work.start_ns
            ELSE 0
        END AS call_ns
    FROM graph.host_call AS call
    INNER JOIN graph.stream_position AS work USING (call_id)
    WHERE call.kind = 'launch'
    QUALIFY row_number() OVER (
        PARTITION BY call_id ORDER BY work.start_ns, work.gpu_op_id
    ) = 1
),

typical AS (
    SELECT
        trace_id,
        kind,
        graph.delay_cap_ns(
            count(*), quantile_disc(call_ns, 0.5), quantile_disc(call_ns, 0.95)
        ) AS cap_ns
    FROM call
    GROUP BY trace_id, kind
)

SELECT call_id, run_id, call.trace_id, call_ns - cap_ns
FROM call
INNER JOIN typical ON call.trace_id = typical.trace_id AND call.kind = typical.kind
WHERE is_before AND call_ns > cap_ns;
