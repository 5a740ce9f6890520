-- What share of the hardware's peak do the kernels of each module reach, including its
-- submodules? Like `question.efficiency`; needs a trace with Python stacks. Equal modules,
-- such as the layers of a model, are together.
-- One row per trace, class of modules and pass.
-- Key: trace_id, module, is_backward.
-- Counts: prediction.work_rate.
CREATE VIEW question.efficiency_by_module (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- The modules, as in `question.module_class`; NULL for ops outside any module.
    module,
    -- Whether it is the backward pass; NULL for ops outside any module.
    is_backward,
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
    traffic_bytes
) AS
WITH
placed AS (
    SELECT rate.*, staging.module_class(around) AS module, is_backward
    FROM prediction.work_rate AS rate
    LEFT JOIN graph.op_module AS op_module ON rate.op_id = op_module.op_id
    LEFT JOIN staging.module_call AS call USING (module_call_id)
    LEFT JOIN graph.module_within AS within
        ON call.trace_id = within.trace_id AND call.path = within.module
    WHERE rate.trace_id IN (SELECT trace_id FROM staging.module_call)
)

SELECT
    run_id,
    trace_id,
    rank,
    module,
    is_backward,
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
    sum(traffic_bytes)::BIGINT
FROM placed
INNER JOIN staging.trace AS trace USING (run_id, trace_id)
GROUP BY run_id, trace_id, rank, module, is_backward
ORDER BY trace_id, time_ns DESC, module, is_backward;
