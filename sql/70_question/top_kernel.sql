-- Which kernels take the most GPU time, and which ops launch them?
-- One row per run and kernel name.
-- Key: run_id, name.
-- Counts: staging.gpu_op.
CREATE VIEW question.top_kernel (
    -- The run.
    run_id,
    -- Name of the kernel, copy or memset.
    name,
    -- Number of times it ran.
    gpu_op_count,
    -- [ns] Its time.
    time_ns,
    -- [ns] Its mean time.
    mean_ns,
    -- [1] Its share of the run's summed GPU time.
    time_share,
    -- Name of the op that launches most of its time; NULL if no op is around a launch.
    op
) AS
WITH
launched AS (
    SELECT
        work.run_id,
        work.name,
        op.name AS op,
        count(*) AS gpu_op_count,
        sum(work.end_ns - work.start_ns)::BIGINT AS time_ns
    FROM staging.gpu_op AS work
    LEFT JOIN staging.op AS op ON work.op_id = op.op_id
    WHERE work.kind <> 'other'
    GROUP BY ALL
)

SELECT
    run_id,
    name,
    sum(gpu_op_count)::BIGINT,
    sum(time_ns)::BIGINT AS all_ns,
    round(all_ns / nullif(sum(gpu_op_count), 0))::BIGINT,
    all_ns / nullif(sum(all_ns) OVER (PARTITION BY run_id), 0),
    arg_max(op, (time_ns, op)) FILTER (op IS NOT NULL)
FROM launched
GROUP BY run_id, name
ORDER BY run_id, all_ns DESC, name;
