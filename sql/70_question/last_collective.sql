-- What has each rank called last, and which ranks are behind? From the flight recorder logs
-- of the ranks.
-- One row per run, process group and rank of it.
-- Key: run_id, process_group, rank.
CREATE VIEW question.last_collective (
    -- The run.
    run_id,
    -- Name of the process group; its description and its ranks, as far as recorded.
    process_group,
    -- The rank.
    rank,
    -- Number of its last collective in the group; 0 if none, NULL without its log.
    sequence,
    -- How many collectives it is behind the most advanced rank.
    behind_count,
    -- Name of its last collective.
    name,
    -- Whether it had finished when the log was written.
    is_over,
    -- [ns] Time of the call, since 1970.
    called_ns,
    -- The source line of the call; NULL without stacks.
    place
) AS
SELECT
    run_id,
    process_group,
    rank,
    CASE WHEN trace_id IS NOT NULL THEN sequence END,
    CASE
        WHEN trace_id IS NOT NULL
            THEN max(sequence) OVER (PARTITION BY run_id, process_group) - sequence
    END AS behind_count,
    name,
    is_over,
    called_ns,
    place
FROM graph.collective_reach
ORDER BY run_id, behind_count DESC, process_group, rank;
