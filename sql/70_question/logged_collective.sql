-- How fast are collectives according to the communication library's log, if it timed them?
-- Messages and bandwidths follow NCCL's tests (`question.collective_kernel`); waiting for
-- other ranks is not separated, so the shortest is the most informative.
-- One row per run, process group, kind, message size and log.
-- Key: run_id, process_group, kind, message_bytes, source.
CREATE VIEW question.logged_collective (
    -- The run.
    run_id,
    -- Name of the process group, or identifier of the communicator.
    process_group,
    -- Kind, as in `staging.collective`.
    kind,
    -- [B] The message of each rank; NULL if unknown.
    message_bytes,
    -- Ranks of the group, if known.
    group_size,
    -- `flight_recorder` or `nccl_inspector`.
    source,
    -- Calls, on all ranks.
    call_count,
    -- [ns] Total time.
    time_ns,
    -- [ns] The median time.
    median_ns,
    -- [ns] The shortest time.
    shortest_ns,
    -- [ns] The longest time.
    longest_ns,
    -- [B/s] Median algorithm bandwidth.
    algorithm_bytes_per_second,
    -- [B/s] Median bus bandwidth; NULL if the size of the group is unknown.
    bus_bytes_per_second,
    -- [B/s] Bus bandwidth of the shortest.
    best_bus_bytes_per_second
) AS
WITH
timed AS (
    SELECT
        *,
        CASE
            WHEN kind = 'all_reduce' THEN 2 * (group_size::DOUBLE - 1) / nullif(group_size, 0)
            WHEN kind IN ('all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter')
                THEN (group_size::DOUBLE - 1) / nullif(group_size, 0)
            WHEN kind NOT IN ('barrier', 'other') THEN 1
        END AS bus_factor
    FROM staging.logged_collective
    WHERE duration_ns IS NOT NULL
)

SELECT
    run_id,
    process_group,
    kind,
    message_bytes,
    max(group_size),
    source,
    count(*),
    sum(duration_ns)::BIGINT AS time_ns,
    quantile_cont(duration_ns, 0.5)::BIGINT AS median_ns,
    min(duration_ns) AS shortest_ns,
    max(duration_ns),
    1e9 * message_bytes / nullif(median_ns, 0) AS bandwidth,
    bandwidth * any_value(bus_factor),
    1e9 * message_bytes / nullif(shortest_ns, 0) * any_value(bus_factor)
FROM timed
GROUP BY run_id, process_group, kind, message_bytes, source
ORDER BY run_id, time_ns DESC, process_group, kind, message_bytes, source;
