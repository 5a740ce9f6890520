-- How fast are collectives by the log of the communication library, where that timed them?
-- Messages and bandwidths are as NCCL's tests count them (`question.collective_kernel`); waiting
-- for other ranks is not told apart, so that the shortest says most.
-- One row per run, process group, kind, size of the message, and log.
-- Key: run_id, process_group, kind, message_bytes, source.
CREATE VIEW question.logged_collective (
    -- The run.
    run_id,
    -- Name of the process group, or identifier of the communicator.
    process_group,
    -- Kind, as in `staging.collective`.
    kind,
    -- [B] The message of each rank; NULL where its size is not known.
    message_bytes,
    -- Ranks of the group, if known.
    group_size,
    -- `flight_recorder` or `nccl_inspector`.
    source,
    -- Calls, of all ranks.
    call_count,
    -- [ns] Time of all.
    time_ns,
    -- [ns] The median of them.
    median_ns,
    -- [ns] The shortest.
    shortest_ns,
    -- [ns] The longest.
    longest_ns,
    -- [B/s] Algorithm bandwidth in the median.
    algorithm_bytes_per_second,
    -- [B/s] Bus bandwidth in the median; NULL where the size of the group is not known.
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
            WHEN kind IN ('all_gather', 'reduce_scatter', 'all_to_all')
                THEN (group_size::DOUBLE - 1) / nullif(group_size, 0)
            WHEN kind <> 'other' THEN 1
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
