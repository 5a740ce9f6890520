-- How fast does each collective move its message, and how long does it wait first? Sizes
-- and bandwidths follow NCCL's tests. The message is the larger of a rank's input and
-- output. The algorithm bandwidth is the message divided by the time. The bus bandwidth
-- multiplies that by 2 (n - 1) / n for an `all_reduce` over n ranks, by (n - 1) / n for an
-- `all_gather`, `reduce_scatter` or `all_to_all`, and by 1 for the others: what each link
-- moves, whatever the number of ranks. Collectives on the CPU are excluded.
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
    -- Name of the process group, and its ranks, as far as recorded.
    process_group,
    -- Kind, as in `staging.collective`.
    kind,
    -- [B] The message; NULL if its size is unknown.
    message_bytes,
    -- Ranks of the group.
    group_size,
    -- [ns] Time of the kernel.
    time_ns,
    -- [ns] The part of this time spent waiting for other ranks of the run; NULL if the
    -- kernel is not matched with theirs.
    waiting_ns,
    -- [ns] Waiting for ranks that are not in the run, at least; NULL likewise.
    absent_waiting_ns,
    -- [ns] The remaining time, in which data moves; all of the time if waiting is unknown.
    moving_ns,
    -- [B/s] Algorithm bandwidth; a lower bound if waiting is unknown.
    algorithm_bytes_per_second,
    -- [B/s] Bus bandwidth; a lower bound likewise.
    bus_bytes_per_second,
    -- Number of nodes that the ranks of the group are on, if ranks are numbered node by
    -- node and each node has as many GPUs as the trace describes; NULL if it describes one,
    -- or the ranks are not recorded.
    node_count,
    -- Number of the collective in its group, the same on all ranks; NULL if not matched.
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
