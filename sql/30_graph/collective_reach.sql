-- How far each rank is in each process group, from logs of collectives: its last call. The
-- ranks of a group are those recorded; otherwise all ranks of the run whose log has the
-- group, or all existing ranks for the group that has all.
-- One row per run, process group and rank of it.
-- Key: run_id, process_group, rank.
CREATE VIEW graph.collective_reach (
    -- The run.
    run_id,
    -- Name of the process group.
    process_group,
    -- The rank.
    rank,
    -- Its trace; NULL if its log is not in the run.
    trace_id,
    -- Number of the last collective that it called in the group; 0 if none.
    sequence,
    -- Name of that collective.
    name,
    -- Whether it had finished when the log was written.
    is_over,
    -- [ns] Time of the call, since 1970.
    called_ns,
    -- The source line of the call; NULL without stacks.
    place,
    -- The last source line from which it called a collective of any group.
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
