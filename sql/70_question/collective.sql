-- How fast do collectives move their messages, and how long do they wait before? Of each
-- kind, size and process group, over all ranks and steps, as `question.collective_kernel`
-- has it kernel by kernel.
-- One row per run, process group, kind, size of the message and of the group.
-- Key: run_id, process_group, kind, message_bytes, group_size, node_count.
CREATE VIEW question.collective (
    -- The run.
    run_id,
    -- Kind, as in `staging.collective`.
    kind,
    -- [B] The message of each rank, as NCCL's tests count it; NULL where it is not known.
    message_bytes,
    -- Ranks of the group.
    group_size,
    -- Nodes that these are on, as in `question.collective_kernel`; NULL where not known.
    node_count,
    -- Kernels, of all ranks.
    kernel_count,
    -- [ns] Their time.
    time_ns,
    -- [ns] Of this time, that of waiting for other ranks, of the run or (at least) not; NULL
    -- where no kernel is matched with those of other ranks.
    waiting_ns,
    -- [ns] The rest, in which data are moved.
    moving_ns,
    -- [B/s] Algorithm bandwidth: messages over that; at least that, where waiting is not known.
    algorithm_bytes_per_second,
    -- [B/s] Bus bandwidth, as NCCL's tests define it; likewise.
    bus_bytes_per_second,
    -- [B/s] That of the fastest of them.
    best_bus_bytes_per_second,
    -- [1] The bus bandwidth's share of NVLink's, by `prediction.hardware`; NULL across nodes,
    -- or where the hardware or the number of nodes is not known.
    link_share,
    -- Name of the process group, and its ranks; as far as they are recorded.
    process_group
) AS
WITH
linked AS (
    SELECT trace_id, any_value(nvlink_bytes_per_second) AS nvlink_bytes_per_second
    FROM prediction.kernel_device
    INNER JOIN prediction.hardware USING (hardware)
    WHERE is_known
    GROUP BY trace_id
    HAVING count(DISTINCT hardware) = 1
)

SELECT
    run_id,
    kind,
    message_bytes,
    group_size,
    node_count,
    count(*),
    sum(time_ns)::BIGINT AS time_ns,
    sum(waiting_ns + absent_waiting_ns)::BIGINT,
    sum(moving_ns)::BIGINT,
    1e9 * sum(message_bytes) / nullif(sum(moving_ns), 0),
    sum(bus_bytes_per_second * moving_ns)
    / nullif(sum(moving_ns) FILTER (bus_bytes_per_second IS NOT NULL), 0) AS bus,
    max(bus_bytes_per_second),
    CASE node_count WHEN 1 THEN bus / nullif(any_value(nvlink_bytes_per_second), 0) END,
    process_group
FROM question.collective_kernel
LEFT JOIN linked USING (trace_id)
GROUP BY run_id, kind, message_bytes, group_size, node_count, process_group
ORDER BY run_id, time_ns DESC, kind, message_bytes, group_size, node_count, process_group;
