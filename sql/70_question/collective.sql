-- How fast do collectives move their messages, and how long do they wait first? For each
-- kind, size and process group, over all ranks and steps; `question.collective_kernel` has
-- each kernel.
-- One row per run, process group, kind, message size and group size.
-- Key: run_id, process_group, kind, message_bytes, group_size, node_count.
-- Counts: question.collective_kernel.
CREATE VIEW question.collective (
    -- The run.
    run_id,
    -- Kind, as in `staging.collective`.
    kind,
    -- [B] The message of each rank, as NCCL's tests count it; NULL if unknown.
    message_bytes,
    -- Ranks of the group.
    group_size,
    -- Number of nodes of these ranks, as in `question.collective_kernel`; NULL if unknown.
    node_count,
    -- Kernels, on all ranks.
    kernel_count,
    -- [ns] Their time.
    time_ns,
    -- [ns] The part of this time spent waiting for other ranks, in the run or (at least)
    -- not; NULL if no kernel is matched with those of other ranks.
    waiting_ns,
    -- [ns] The remaining time, in which data moves.
    moving_ns,
    -- [B/s] Algorithm bandwidth: messages divided by that time; a lower bound if waiting is
    -- unknown.
    algorithm_bytes_per_second,
    -- [B/s] Bus bandwidth, as NCCL's tests define it; a lower bound likewise.
    bus_bytes_per_second,
    -- [B/s] Bus bandwidth of the fastest of them.
    best_bus_bytes_per_second,
    -- [1] Bus bandwidth as a share of NVLink's in `prediction.hardware`, or of PCIe's if
    -- NVLink does not join so many GPUs; NULL across nodes, or if the hardware or the number
    -- of nodes is unknown.
    link_share,
    -- Name of the process group, and its ranks, as far as recorded.
    process_group
) AS
WITH
linked AS (
    SELECT
        trace_id,
        any_value(nvlink_bytes_per_second) AS nvlink_bytes_per_second,
        any_value(pcie_bytes_per_second) AS pcie_bytes_per_second,
        any_value(linked_devices) AS linked_devices
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
    CASE node_count
        WHEN 1 THEN bus / nullif(any_value(CASE
            WHEN group_size > linked_devices THEN pcie_bytes_per_second
            ELSE nvlink_bytes_per_second
        END), 0)
    END,
    process_group
FROM question.collective_kernel
LEFT JOIN linked USING (trace_id)
GROUP BY run_id, kind, message_bytes, group_size, node_count, process_group
ORDER BY run_id, time_ns DESC, kind, message_bytes, group_size, node_count, process_group;
