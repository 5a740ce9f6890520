-- What has each rank called last, and which ranks are behind? By the logs of the ranks' flight
-- recorders.
-- One row per run, process group and rank of it.
-- Key: run_id, process_group, rank.
CREATE VIEW question.last_collective (
    -- The run.
    run_id,
    -- Name of the process group; what describes it, and its ranks, as far as recorded.
    process_group,
    -- The rank.
    rank,
    -- Number of its last collective in the group; 0 of none, NULL without its log.
    sequence,
    -- How many collectives it is behind the rank that is furthest.
    behind_count,
    -- Name of its last collective.
    name,
    -- Whether that was over when the log was written.
    is_over,
    -- [ns] When it was called, since 1970.
    called_ns,
    -- The line of the program that called it; NULL without stacks.
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
