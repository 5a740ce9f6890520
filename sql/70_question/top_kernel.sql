-- Which kernels take the most GPU time?
-- One row per run and kernel name.
-- Key: run_id, name.
CREATE VIEW question.top_kernel (
    -- The run.
    run_id,
    -- Name of the kernel, copy or memset.
    name,
    -- Times that it ran.
    gpu_op_count,
    -- [ns] Its time.
    time_ns,
    -- [ns] Its mean time.
    mean_ns,
    -- [1] Its share of the run's summed GPU time.
    time_share
) AS
SELECT
    run_id,
    name,
    count(*),
    sum(end_ns - start_ns)::BIGINT AS time_ns,
    round(avg(end_ns - start_ns))::BIGINT,
    time_ns / nullif(sum(sum(end_ns - start_ns)) OVER (PARTITION BY run_id), 0)
FROM staging.gpu_op
WHERE kind <> 'other'
GROUP BY run_id, name
ORDER BY run_id, time_ns DESC, name;
