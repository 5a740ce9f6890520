-- How much of a step is forward, backward, optimizer and data loading? Means over the
-- whole steps of each trace; for single steps, `phase_by_step`.
-- One row per trace and phase.
-- Key: trace_id, phase.
-- Counts: question.phase_by_step, staging.whole_step.
CREATE VIEW question.phase (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- `data_loading`, `inference`, `forward`, `backward`, `gradients`, `optimizer` or `other`.
    phase,
    -- [ns] Time per step on the thread of the steps; without steps, all time of the main
    -- thread.
    host_ns,
    -- [1] Its share.
    host_share,
    -- [ns] GPU work launched by it per step, or in total.
    gpu_ns,
    -- [ns] Time per step, or in total, on the critical path.
    path_ns,
    -- [1] Its share.
    path_share
) AS
SELECT
    run_id,
    trace_id,
    rank,
    phase,
    round(sum(host_ns) / step_count)::BIGINT,
    sum(host_ns) / nullif(sum(sum(host_ns)) OVER in_trace, 0),
    round(sum(gpu_ns) / step_count)::BIGINT,
    round(sum(path_ns) / step_count)::BIGINT,
    sum(path_ns) / nullif(sum(sum(path_ns)) OVER in_trace, 0)
FROM question.phase_by_step AS part
INNER JOIN (
    SELECT trace_id, greatest(count(step_id), 1) AS step_count
    FROM staging.trace
    LEFT JOIN staging.whole_step USING (trace_id)
    GROUP BY trace_id
) USING (trace_id)
WHERE step_id IS NULL OR step_id IN (SELECT step_id FROM staging.whole_step)
GROUP BY run_id, trace_id, rank, phase, step_count
WINDOW in_trace AS (PARTITION BY trace_id)
ORDER BY
    run_id, rank, trace_id,
    graph.ordinal_of_phase(phase);
