-- The work of each kernel that is not a collective, and of each copy and memset within a
-- device, with the hardware's peaks (`prediction.hardware`).
-- One row per such GPU op.
-- Key: gpu_op_id.
CREATE VIEW prediction.work_rate (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The op that launched it.
    op_id,
    -- Device.
    device,
    -- Row of `prediction.hardware`; NULL if the device's model is not listed there.
    hardware,
    -- Family of its op; `unknown` if its FLOPs and bytes are unknown.
    family,
    -- Arithmetic units, as in `prediction.kernel_work`; NULL for unknown work.
    unit,
    -- [ns] Its time.
    time_ns,
    -- [ns] The same; NULL for unknown work.
    known_ns,
    -- [ns] The same if sizes or types were not recorded and are assumed; otherwise NULL.
    assumed_ns,
    -- [FLOP] FLOPs; NULL for unknown work.
    flops,
    -- [B] Bytes read and written; each access counts; NULL for unknown work.
    traffic_bytes,
    -- [FLOP/s] Peak of these units; NULL for unlisted hardware.
    peak_flops_per_second,
    -- [B/s] Peak memory bandwidth; likewise.
    peak_bytes_per_second
) AS
WITH
listed AS (
    SELECT trace_id, device, peak.*
    FROM prediction.kernel_device
    INNER JOIN prediction.hardware AS peak USING (hardware)
    WHERE is_known
)

SELECT
    gpu_op.gpu_op_id,
    gpu_op.run_id,
    gpu_op.trace_id,
    gpu_op.op_id,
    gpu_op.device,
    hardware,
    coalesce(family, 'unknown'),
    unit,
    gpu_op.end_ns - gpu_op.start_ns,
    CASE WHEN family IS NOT NULL THEN gpu_op.end_ns - gpu_op.start_ns END,
    CASE WHEN NOT is_exact THEN gpu_op.end_ns - gpu_op.start_ns END,
    flops,
    traffic_bytes,
    coalesce(fp64_peaks, 0) * peak_fp64_flops_per_second
    + coalesce(fp64_matrix_peaks, 0) * peak_fp64_matrix_flops_per_second
    + coalesce(fp32_peaks, 1) * peak_fp32_flops_per_second
    + coalesce(tf32_peaks, 0) * peak_tf32_flops_per_second
    + coalesce(half_peaks, 0) * peak_half_flops_per_second,
    dram_bytes_per_second
FROM staging.gpu_op AS gpu_op
LEFT JOIN prediction.kernel_work AS work USING (gpu_op_id)
LEFT JOIN prediction.arithmetic_unit USING (unit)
LEFT JOIN listed ON gpu_op.trace_id = listed.trace_id AND gpu_op.device = listed.device
WHERE
    gpu_op.kind <> 'other'
    AND NOT is_collective
    AND (gpu_op.kind <> 'memcpy' OR staging.copy_direction(gpu_op.name) = 'd2d');
