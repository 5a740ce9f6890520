-- Waits of hosts for GPU work that do not exist in a variant because a stream does not wait
-- for that work any more, and so has nothing to pass on: if no later work on it does or,
-- without later work that did, nothing in the trace.
-- One row per variant, blocking call and GPU op.
-- Key: variant_id, call_id, gpu_op_id.
CREATE VIEW prediction.removed_pass (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The blocking call.
    call_id,
    -- The GPU op that it waited for.
    gpu_op_id
) AS
WITH
-- Waits of streams, and whether a variant has them.
kept AS (
    SELECT
        variant.variant_id,
        awaited.trace_id,
        awaited_gpu_op_id,
        launch_start_ns,
        removed.kind IS NULL AS is_kept
    FROM (SELECT DISTINCT variant_id FROM prediction.removed_wait WHERE kind = 'stream')
        AS variant
    CROSS JOIN prediction.gpu_awaited AS awaited
    INNER JOIN graph.stream_position AS work ON awaited.gpu_op_id = work.gpu_op_id
    LEFT JOIN prediction.removed_wait AS removed
        ON
            variant.variant_id = removed.variant_id
            AND removed.kind = 'stream'
            AND awaited.gpu_op_id = removed.waiting_id
),

left_over AS (
    SELECT variant_id, trace_id, bool_or(is_kept) AS has_waits
    FROM kept
    GROUP BY variant_id, trace_id
)

SELECT left_over.variant_id, passed.call_id, passed.gpu_op_id
FROM graph.host_awaited AS passed
INNER JOIN left_over USING (trace_id)
LEFT JOIN kept
    ON
        left_over.variant_id = kept.variant_id
        AND passed.gpu_op_id = kept.awaited_gpu_op_id
        AND passed.start_ns < kept.launch_start_ns
WHERE is_passed
GROUP BY left_over.variant_id, passed.call_id, passed.gpu_op_id, has_waits
HAVING NOT coalesce(bool_or(is_kept), has_waits);
