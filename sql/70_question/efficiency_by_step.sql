-- How much of what the hardware can do do steps reach (MFU, model FLOPs utilization)? Of the
-- work that is launched in a step over its period; of a trace without steps over all of it.
-- Work of which nobody knows what it has to do counts as none, so shares are at least that.
-- One row per step, of traces without steps per trace, and device that ran kernels.
-- Key: trace_id, step_id, device.
CREATE VIEW question.efficiency_by_step (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step; NULL of traces without steps.
    step_id,
    -- Number of the step; NULL likewise.
    step,
    -- Device.
    device,
    -- Row of `prediction.hardware`; NULL where the device's model is not listed there.
    hardware,
    -- [ns] The period; of a trace without steps from its begin to its end.
    period_ns,
    -- [1] Of the time of kernels, that of which it is not known what they have to do.
    unknown_share,
    -- [FLOP] Arithmetic.
    flops,
    -- [FLOP/s] Over the period.
    flops_per_second,
    -- [1] Model FLOPs utilization (MFU): the time that the arithmetic of matrix products,
    -- convolutions and attention would take at the peaks of the units that do it, over the
    -- period; NULL where the peaks are not listed.
    mfu_share,
    -- [1] Share of the peak that all arithmetic reaches over the time of the kernels alone.
    compute_share,
    -- [1] The time that bytes would take at the peak of the memory, over the period.
    memory_share
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
)

SELECT
    placed.trace_id,
    rank,
    placed.step_id,
    part.step,
    device,
    any_value(hardware),
    any_value(part.end_ns - part.start_ns) AS period_ns,
    1 - coalesce(sum(known_ns), 0) / nullif(sum(time_ns), 0),
    sum(flops) AS flops,
    1e9 * sum(flops) / nullif(period_ns, 0),
    1e9 * sum(
        CASE WHEN family IN ('gemm', 'convolution', 'attention') THEN flops ELSE 0 END
        / peak_flops_per_second
    ) / nullif(period_ns, 0),
    prediction.peak_share(flops, peak_flops_per_second, known_ns),
    1e9 * sum(traffic_bytes / peak_bytes_per_second) / nullif(period_ns, 0)
FROM placed
INNER JOIN part
    ON placed.trace_id = part.trace_id AND placed.step_id IS NOT DISTINCT FROM part.step_id
INNER JOIN staging.trace AS trace ON placed.trace_id = trace.trace_id
GROUP BY placed.trace_id, rank, placed.step_id, part.step, device
ORDER BY placed.trace_id, part.step, placed.step_id, device;
