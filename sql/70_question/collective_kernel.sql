-- How fast does each collective move its message, and how long does it wait before? Sizes and
-- bandwidths are as NCCL's tests define them: the message is what a rank has before or after,
-- whichever is more; the algorithm bandwidth is the message over the time; and the bus
-- bandwidth that times 2 (n - 1) / n of an `all_reduce` of n ranks, (n - 1) / n of an
-- `all_gather`, `reduce_scatter` or `all_to_all`, and 1 of the others: what each link moves,
-- whatever the number of ranks is.
-- Those on the CPU are not in here.
-- One row per kernel of communication.
-- Key: gpu_op_id.
CREATE VIEW question.collective_kernel (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Number of the step that launched it; NULL outside of steps.
    step,
    -- Name of the process group, and its ranks; as far as they are recorded.
    process_group,
    -- Kind, as in `staging.collective`.
    kind,
    -- [B] The message; NULL where its size is not known.
    message_bytes,
    -- Ranks of the group.
    group_size,
    -- [ns] Time of the kernel.
    time_ns,
    -- [ns] Of this time, that of waiting for other ranks of the run; NULL where the kernel is
    -- not matched with theirs.
    waiting_ns,
    -- [ns] Waiting for ranks that are not in the run, at least; NULL likewise.
    absent_waiting_ns,
    -- [ns] The rest, in which data are moved; all of the time where waiting is not known.
    moving_ns,
    -- [B/s] Algorithm bandwidth: at least that, where waiting is not known.
    algorithm_bytes_per_second,
    -- [B/s] Bus bandwidth; likewise.
    bus_bytes_per_second,
    -- Nodes that the ranks of the group are on, if ranks are numbered node by node and each
    -- node has as many GPUs as the trace describes; NULL where it describes one, or the ranks
    -- are not recorded.
    node_count,
    -- Number of the collective in its group, the same on all ranks; NULL where not matched.
    number,
    -- The kernel.
    gpu_op_id
) AS
WITH
sized AS (
    SELECT
        gpu_op_id,
        bytes // count(*) OVER (PARTITION BY work.op_id) AS message_bytes,
        CASE WHEN made.kind IN ('reduce', 'send', 'recv') THEN bytes ELSE read_bytes END
        / count(*) OVER (PARTITION BY work.op_id) AS bus_bytes
    FROM staging.collective AS made
    INNER JOIN staging.gpu_op AS work ON node_id = gpu_op_id
    INNER JOIN prediction.op_problem AS problem ON work.op_id = problem.op_id
    WHERE problem.family = 'collective'
),

launched AS (
    SELECT gpu_op_id, max(step) AS step
    FROM staging.step_work
    INNER JOIN staging.step USING (step_id)
    GROUP BY gpu_op_id
),

member AS (
    SELECT
        collective.* EXCLUDE (start_ns, end_ns),
        gpu_op_id,
        work.end_ns - work.start_ns AS time_ns,
        try_cast(regexp_extract(process_group, '\[.*\]') AS BIGINT []) AS ranks
    FROM staging.collective AS collective
    INNER JOIN staging.gpu_op AS work ON node_id = gpu_op_id
)

SELECT
    member.run_id,
    member.trace_id,
    rank,
    step,
    member.process_group,
    member.kind,
    message_bytes,
    member.group_size,
    time_ns,
    waiting_ns,
    absent_waiting_ns,
    coalesce(moving_ns, time_ns) AS moving_ns,
    1e9 * message_bytes / nullif(coalesce(moving_ns, time_ns), 0),
    CASE WHEN member.kind <> 'other' THEN
        1e9 * bus_bytes / nullif(coalesce(moving_ns, time_ns), 0)
    END,
    staging.node_count(ranks, member.group_size, world_size, described_count),
    number,
    gpu_op_id
FROM member
INNER JOIN staging.trace AS trace ON member.trace_id = trace.trace_id
LEFT JOIN sized USING (gpu_op_id)
LEFT JOIN launched USING (gpu_op_id)
LEFT JOIN graph.collective AS met ON gpu_op_id = met.node_id
ORDER BY member.run_id, rank, member.trace_id, time_ns DESC, gpu_op_id;
