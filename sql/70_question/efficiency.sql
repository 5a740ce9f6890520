-- How much of what the hardware can do do kernels reach, and which of its limits are they
-- under (the roofline)? By family, with copies and memsets within a device. Rates are over the
-- time of the kernels themselves; that of steps is in `question.efficiency_by_step`.
-- One row per run, model of the hardware, family and units that do the arithmetic.
-- Key: run_id, hardware, family, unit.
CREATE VIEW question.efficiency (
    -- The run.
    run_id,
    -- Family; `unknown` where what kernels have to do is not known.
    family,
    -- Units that do the arithmetic: `half`, `tf32` or `fp32`; NULL of unknown work.
    unit,
    -- GPU ops.
    gpu_op_count,
    -- [ns] Their time.
    time_ns,
    -- [1] Of this time, that of GPU ops of which it is not known what they have to do: all
    -- that follows is of the others.
    unknown_share,
    -- [1] Share of the peak of arithmetic; NULL where `prediction.hardware` does not list it.
    compute_share,
    -- [1] Share of the peak of the memory's bandwidth; above 1 where the cache serves it.
    memory_share,
    -- `compute` or `memory`, whichever takes longer at its peak.
    bound,
    -- [FLOP/s] Arithmetic over time.
    flops_per_second,
    -- [B/s] Bytes over time.
    traffic_bytes_per_second,
    -- [FLOP/B] Arithmetic intensity.
    flops_per_byte,
    -- [FLOP] Arithmetic.
    flops,
    -- [B] Bytes that are read and written, each access counted, from cache or memory.
    traffic_bytes,
    -- Row of `prediction.hardware`; NULL where the device's model is not listed there.
    hardware
) AS
SELECT
    run_id,
    family,
    unit,
    count(*),
    sum(time_ns)::BIGINT AS time_ns,
    1 - coalesce(sum(known_ns), 0) / nullif(sum(time_ns), 0),
    prediction.peak_share(flops, peak_flops_per_second, known_ns) AS compute_share,
    prediction.peak_share(traffic_bytes, peak_bytes_per_second, known_ns) AS memory_share,
    prediction.roofline_bound(compute_share, memory_share),
    1e9 * sum(flops) / nullif(sum(known_ns), 0),
    1e9 * sum(traffic_bytes) / nullif(sum(known_ns), 0),
    sum(flops) / nullif(sum(traffic_bytes), 0),
    sum(flops),
    sum(traffic_bytes)::BIGINT,
    hardware
FROM prediction.work_rate
GROUP BY run_id, hardware, family, unit
ORDER BY run_id, time_ns DESC, hardware, family, unit;
