-- How far each rank is in each process group, by the logs of collectives: what it has called
-- last. Ranks of a group are those that are recorded; else all ranks of the run whose log has
-- the group, and all there are of the group that has all.
-- One row per run, process group and rank of it.
-- Key: run_id, process_group, rank.
CREATE VIEW graph.collective_reach (
    -- The run.
    run_id,
    -- Name of the process group.
    process_group,
    -- The rank.
    rank,
    -- Its trace; NULL where its log is not in the run.
    trace_id,
    -- Number of the last collective that it called in the group; 0 of none.
    sequence,
    -- Name of that.
    name,
    -- Whether that was over when the log was written.
    is_over,
    -- [ns] When it was called, since 1970.
    called_ns,
    -- The line of the program that called it; NULL without stacks.
    place,
    -- The last line that it called a collective of any group from.
    last_place
) AS
WITH
call AS (
    SELECT logged.*, rank, start_ns + base_ns AS called_ns
    FROM staging.logged_collective AS logged
    INNER JOIN staging.trace USING (trace_id)
    WHERE source = 'flight_recorder' AND rank IS NOT NULL
),

present AS (
    SELECT run_id, rank, min(trace_id) AS trace_id,
        arg_max(place, (called_ns, event_id)) AS last_place
    FROM call
    GROUP BY run_id, rank
),

member AS (
    SELECT DISTINCT run_id, process_group, unnest(group_ranks::BIGINT []) AS rank
    FROM call
    WHERE group_ranks IS NOT NULL
    UNION
    SELECT DISTINCT call.run_id, process_group, present.rank
    FROM call
    INNER JOIN present
        ON call.run_id = present.run_id AND (is_of_all OR call.rank = present.rank)
    WHERE group_ranks IS NULL
),

last AS (
    SELECT *
    FROM call
    WHERE NOT is_p2p AND sequence IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY run_id, process_group, rank ORDER BY sequence DESC, event_id DESC
    ) = 1
)

SELECT
    member.run_id,
    member.process_group,
    member.rank,
    present.trace_id,
    coalesce(sequence, 0),
    name,
    is_over,
    called_ns,
    place,
    last_place
FROM member
LEFT JOIN present USING (run_id, rank)
LEFT JOIN last USING (run_id, process_group, rank);
