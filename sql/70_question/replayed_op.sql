-- Which ops does the work of graph launches belong to? GPU time by the captured op.
-- One row per op name and trace that replays, with the longest time first.
-- Key: trace_id, op_name.
-- Counts: graph.replayed_gpu_op.
CREATE VIEW question.replayed_op (
    -- The run.
    run_id,
    -- The trace that replays.
    trace_id,
    -- Its rank.
    rank,
    -- Name of the op in the capture; NULL if no capture, or no op, was found.
    op_name,
    -- Number of GPU ops.
    gpu_op_count,
    -- [ns] Their time.
    gpu_time_ns,
    -- [1] Share of the trace's total replayed GPU time.
    gpu_time_share
) AS
SELECT
    replayed.run_id,
    replayed.trace_id,
    rank,
    op.name AS op_name,
    count(*) AS gpu_op_count,
    sum(gpu_op.end_ns - gpu_op.start_ns)::BIGINT AS gpu_time_ns,
    gpu_time_ns / nullif(sum(gpu_time_ns) OVER (PARTITION BY replayed.trace_id), 0)
    AS gpu_time_share
FROM graph.replayed_gpu_op AS replayed
INNER JOIN staging.trace AS trace ON replayed.trace_id = trace.trace_id
INNER JOIN staging.gpu_op AS gpu_op ON replayed.gpu_op_id = gpu_op.gpu_op_id
LEFT JOIN staging.op AS op ON replayed.captured_op_id = op.op_id
GROUP BY replayed.run_id, replayed.trace_id, rank, op_name
ORDER BY replayed.trace_id, gpu_time_ns DESC, op_name;
