-- What share of the hardware's peak do kernels reach, and which limit applies (the
-- roofline)? By family, including copies and memsets within a device. Rates are over the
-- time of the kernels; for those of steps, see `question.efficiency_by_step`.
-- One row per run, hardware model, family and arithmetic units.
-- Key: run_id, hardware, family, unit.
-- Counts: prediction.work_rate.
CREATE VIEW question.efficiency (
    -- The run.
    run_id,
    -- Family; `unknown` if a kernel's FLOPs and bytes are unknown.
    family,
    -- Arithmetic units: `byte`, `half`, `tf32` or `fp32`; NULL for unknown work.
    unit,
    -- GPU ops.
    gpu_op_count,
    -- [ns] Their time.
    time_ns,
    -- [1] Share of the arithmetic peak; NULL if `prediction.hardware` does not list it.
    compute_share,
    -- [1] Share of the peak memory bandwidth; above 1 if the cache serves it.
    memory_share,
    -- `compute` or `memory`, whichever takes longer at its peak.
    bound,
    -- [1] Share of the time in GPU ops whose FLOPs and bytes are unknown; the other rates,
    -- shares, FLOPs and bytes exclude them.
    unknown_share,
    -- [1] Share of the time in GPU ops whose FLOPs and bytes rest on sizes or types that
    -- were not recorded and are assumed.
    assumed_share,
    -- [FLOP/s] FLOPs divided by time.
    flops_per_second,
    -- [B/s] Bytes divided by time.
    traffic_bytes_per_second,
    -- [FLOP/B] Arithmetic intensity.
    flops_per_byte,
    -- [FLOP] FLOPs.
    flops,
    -- [B] Bytes read and written; each access counts, from cache or memory.
    traffic_bytes,
    -- Row of `prediction.hardware`; NULL if the device's model is not listed there.
    hardware
) AS
SELECT
    run_id,
    family,
    unit,
    count(*),
    sum(time_ns)::BIGINT AS time_ns,
    prediction.peak_share(flops, peak_flops_per_second, known_ns) AS compute_share,
    prediction.peak_share(traffic_bytes, peak_bytes_per_second, known_ns) AS memory_share,
    prediction.roofline_bound(compute_share, memory_share),
    1 - coalesce(sum(known_ns), 0) / nullif(sum(time_ns), 0),
    coalesce(sum(assumed_ns), 0) / nullif(sum(time_ns), 0),
    1e9 * sum(flops) / nullif(sum(known_ns), 0),
    1e9 * sum(traffic_bytes) / nullif(sum(known_ns), 0),
    sum(flops) / nullif(sum(traffic_bytes), 0),
    sum(flops),
    sum(traffic_bytes)::BIGINT,
    hardware
FROM prediction.work_rate
GROUP BY run_id, hardware, family, unit
ORDER BY run_id, time_ns DESC, hardware, family, unit;
