-- Kernels that began while a kernel of another stream ran on the device: they wait for
-- space on its multiprocessors. Of the kernels before them, the one that ends last counts.
-- Collectives leave most of the device to others and do not count.
-- One row per such kernel.
-- Key: gpu_op_id.
CREATE VIEW prediction.concurrent_kernel (
    -- The kernel.
    gpu_op_id,
    -- The trace.
    trace_id
) AS
SELECT gpu_op_id, trace_id
FROM (
    SELECT
        gpu_op_id,
        trace_id,
        max(end_ns) OVER earlier > start_ns
        AND arg_max(stream, end_ns) OVER earlier <> stream AS is_concurrent
    FROM staging.gpu_op
    WHERE kind = 'kernel' AND NOT is_collective
    WINDOW earlier AS (
        PARTITION BY trace_id, device ORDER BY start_ns, gpu_op_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
WHERE is_concurrent;
