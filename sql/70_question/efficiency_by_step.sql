-- What share of the hardware's peak do steps reach (MFU, model FLOPs utilization)? For the
-- work launched in a step, over its period; without steps, over the whole trace. Work with
-- unknown FLOPs counts as zero, so shares are lower bounds; if no FLOPs are known and some
-- are unknown, they and MFU are NULL.
-- One row per step and device that ran kernels, or per trace and device without steps.
-- Key: trace_id, step_id, device.
CREATE VIEW question.efficiency_by_step (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step; NULL for traces without steps.
    step_id,
    -- Number of the step; NULL outside of steps.
    step,
    -- Device.
    device,
    -- Row of `prediction.hardware`; NULL if the device's model is not listed there.
    hardware,
    -- [ns] The period; for a trace without steps, from its start to its end.
    period_ns,
    -- [1] Model FLOPs utilization (MFU): the time that the FLOPs of GEMMs, convolutions and
    -- attention would take at the peaks of their units, divided by the period; NULL if the
    -- peaks are not listed, or no FLOPs are known.
    mfu_share,
    -- [1] Share of the peak that all arithmetic reaches over kernel time only.
    compute_share,
    -- [1] The time that the bytes would take at peak memory bandwidth, divided by the
    -- period.
    memory_share,
    -- [1] Share of kernel time with unknown FLOPs and bytes.
    unknown_share,
    -- [1] Share of kernel time whose FLOPs and bytes rest on sizes or types that were not
    -- recorded and are assumed.
    assumed_share,
    -- [FLOP] FLOPs; NULL if none are known.
    flops,
    -- [FLOP/s] Over the period.
    flops_per_second
) AS
WITH
lasting AS (
    SELECT trace_id, start_ns, end_ns FROM overhead.timeline
    UNION ALL
    SELECT trace_id, start_ns, end_ns FROM staging.gpu_op
),

part AS (
    SELECT trace_id, step_id, step, start_ns, end_ns
    FROM graph.step_period
    UNION ALL
    SELECT trace_id, NULL, NULL, min(start_ns), max(end_ns)
    FROM lasting
    WHERE trace_id NOT IN (SELECT trace_id FROM staging.step)
    GROUP BY trace_id
),

placed AS (
    SELECT rate.*, step_id
    FROM prediction.work_rate AS rate
    LEFT JOIN staging.step_work USING (gpu_op_id)
),

reached AS (
    SELECT
        placed.trace_id,
        rank,
        placed.step_id,
        part.step,
        device,
        any_value(hardware) AS hardware,
        any_value(part.end_ns - part.start_ns) AS period_ns,
        1e9 * sum(
            CASE WHEN family IN ('gemm', 'convolution', 'attention') THEN flops ELSE 0 END
            / peak_flops_per_second
        ) / nullif(period_ns, 0) AS mfu_share,
        prediction.peak_share(flops, peak_flops_per_second, known_ns) AS compute_share,
        1e9 * sum(traffic_bytes / peak_bytes_per_second) / nullif(period_ns, 0) AS memory_share,
        1 - coalesce(sum(known_ns), 0) / nullif(sum(time_ns), 0) AS unknown_share,
        coalesce(sum(assumed_ns), 0) / nullif(sum(time_ns), 0) AS assumed_share,
        sum(flops) AS total_flops,
        total_flops > 0 OR count(*) = count(flops) AS has_flops
    FROM placed
    INNER JOIN part
        ON
            placed.trace_id = part.trace_id
            AND placed.step_id IS NOT DISTINCT FROM part.step_id
    INNER JOIN staging.trace AS trace ON placed.trace_id = trace.trace_id
    GROUP BY placed.trace_id, rank, placed.step_id, part.step, device
)

SELECT
    trace_id,
    rank,
    step_id,
    step,
    device,
    hardware,
    period_ns,
    CASE WHEN has_flops THEN mfu_share END,
    compute_share,
    memory_share,
    unknown_share,
    assumed_share,
    CASE WHEN has_flops THEN total_flops END AS flops,
    1e9 * flops / nullif(period_ns, 0)
FROM reached
ORDER BY trace_id, step, step_id, device;
