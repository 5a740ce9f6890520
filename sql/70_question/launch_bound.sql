-- Which GPU work starts only when the host launches it, although its stream was free
-- before? If there is much of it, and it is shorter than its launch, consider CUDA graphs,
-- fusion or larger batches.
-- One row per run and name of such work.
-- Key: run_id, name.
-- Counts: staging.gpu_op.
CREATE VIEW question.launch_bound (
    -- The run.
    run_id,
    -- Name of the kernel, copy or memset.
    name,
    -- Number of times it ran.
    gpu_op_count,
    -- Number of times its stream was free before it was launched.
    late_count,
    -- Number of times it was shorter than its launch on the host.
    short_count,
    -- [ns] Its time on the device.
    time_ns,
    -- [ns] Time of the calls that launched it.
    launch_ns,
    -- [ns] Time for which its stream was free before it, if it was launched late.
    free_ns
) AS
SELECT
    work.run_id,
    work.name,
    count(*),
    count(*) FILTER (cause = 'launch') AS late_count,
    count(*) FILTER (work.end_ns - work.start_ns < launch_end_ns - launch_start_ns),
    sum(work.end_ns - work.start_ns)::BIGINT,
    sum(launch_end_ns - launch_start_ns)::BIGINT,
    coalesce(
        sum(greatest(work.start_ns - previous_end_ns, 0)) FILTER (cause = 'launch'), 0
    )::BIGINT AS free_ns
FROM staging.gpu_op AS work
INNER JOIN graph.stream_position AS place USING (gpu_op_id)
INNER JOIN graph.gpu_cause AS gpu_cause USING (gpu_op_id)
WHERE launch_start_ns IS NOT NULL
GROUP BY work.run_id, work.name
HAVING late_count > 0
ORDER BY work.run_id, free_ns DESC, work.name;
