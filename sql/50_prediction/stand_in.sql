-- The replacement of removed GPU work for its waiters: what it followed
-- (`prediction.removed_cause`), and for the removed part of that, what that followed. Only
-- for removed work that something waited for.
-- Without edits it is empty.
-- One row per variant, removed GPU op and kept GPU op.
-- Key: variant_id, gpu_op_id, kept_gpu_op_id.
CREATE TABLE prediction.stand_in (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The removed GPU op.
    gpu_op_id,
    -- The GPU op that is awaited instead.
    kept_gpu_op_id
) AS
WITH RECURSIVE
removed_cause AS MATERIALIZED (
    FROM prediction.removed_cause
    WHERE trace_id IN (SELECT trace_id FROM staging.computing)
),

needed AS (
    SELECT awaited_gpu_op_id AS gpu_op_id FROM prediction.gpu_awaited
    UNION
    SELECT gpu_op_id FROM graph.host_awaited
),

walk AS (
    SELECT variant_id, trace_id, gpu_op_id, cause_gpu_op_id
    FROM removed_cause
    SEMI JOIN needed USING (gpu_op_id)
    UNION
    SELECT walk.variant_id, walk.trace_id, walk.gpu_op_id, cause.cause_gpu_op_id
    FROM walk
    INNER JOIN removed_cause AS cause
        ON
            walk.variant_id = cause.variant_id
            AND walk.cause_gpu_op_id = cause.gpu_op_id
)

SELECT variant_id, trace_id, gpu_op_id, cause_gpu_op_id
FROM walk
ANTI JOIN prediction.removed_place AS removed
    ON walk.variant_id = removed.variant_id AND walk.cause_gpu_op_id = removed.gpu_op_id;
