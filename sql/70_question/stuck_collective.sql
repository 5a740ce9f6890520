-- Which collectives are unfinished, and which ranks have not called them? For each process
-- group, the first one that some rank waits in, or that some rank has called and another
-- has not, according to the flight recorder logs. In a running job, ranks are one or two
-- calls apart.
-- One row per run and process group; for sends and receives, per pair of ranks.
-- Key: run_id, process_group, pair.
CREATE VIEW question.stuck_collective (
    -- The run.
    run_id,
    -- Name of the process group; its description and its ranks, as far as recorded.
    process_group,
    -- For a send and its receive the two ranks, numbered within the group, as `0->1`;
    -- otherwise empty.
    pair,
    -- Number of the collective in its group; NULL for sends and receives.
    sequence,
    -- Name used by most ranks that have called it.
    name,
    -- Ranks that have called it.
    called_ranks,
    -- Ranks of the group that have not called it, although their log is in the run.
    missing_ranks,
    -- The source line from which the first rank called it; NULL without stacks.
    place,
    -- The source line from which a missing rank called its last collective, of any group.
    missing_place,
    -- Ranks of the group whose log is not in the run.
    absent_ranks,
    -- Ranks that called something else, or with another size, instead.
    odd_ranks,
    -- Input elements, if known.
    element_count,
    -- Number of later calls of the group that are unfinished.
    later_count,
    -- [ns] Time of the first rank's call, since 1970.
    called_ns
) AS
WITH
call AS (
    SELECT
        logged.*,
        rank,
        start_ns + base_ns AS called_ns,
        CASE WHEN kind NOT IN ('all_to_all', 'other') THEN element_count END AS size,
        -- A receive is named `1<-0`.
        regexp_replace(
            regexp_extract(name, '[0-9]+(->|<-)[0-9]+'), '([0-9]+)<-([0-9]+)', '\2->\1'
        ) AS pair
    FROM staging.logged_collective AS logged
    INNER JOIN staging.trace USING (trace_id)
    WHERE source = 'flight_recorder' AND rank IS NOT NULL
),

-- The last of a group of calls describes it.
of_rank AS (
    SELECT
        run_id,
        process_group,
        sequence,
        rank,
        bool_or(is_over) AS is_over,
        arg_max(name, event_id) AS name,
        max(size) AS size,
        max(element_count) AS element_count,
        min(called_ns) AS called_ns,
        arg_max(place, event_id) AS place
    FROM call
    WHERE NOT is_p2p AND sequence IS NOT NULL
    GROUP BY run_id, process_group, sequence, rank
),

-- Logs keep a limited number of calls: what a rank called earlier may be gone.
open AS (
    SELECT run_id, process_group, sequence
    FROM of_rank
    INNER JOIN (
        SELECT run_id, process_group, min(sequence) AS of_all
        FROM graph.collective_reach
        WHERE trace_id IS NOT NULL
        GROUP BY run_id, process_group
    ) USING (run_id, process_group)
    GROUP BY run_id, process_group, sequence
    HAVING NOT bool_and(is_over) OR sequence > any_value(of_all)
),

compared_call AS (
    SELECT
        of_rank.*,
        later_count,
        2 * count(*) OVER (PARTITION BY run_id, process_group, name, size)
        <= count(*) OVER (PARTITION BY run_id, process_group) AS is_odd
    FROM of_rank
    INNER JOIN (
        SELECT run_id, process_group, min(sequence) AS sequence, count(*) - 1 AS later_count
        FROM open
        GROUP BY run_id, process_group
    ) USING (run_id, process_group, sequence)
),

called AS (
    SELECT
        run_id,
        process_group,
        '' AS pair,
        sequence,
        coalesce(min(name) FILTER (NOT is_odd), min(name)) AS name,
        max(element_count) AS element_count,
        list(rank ORDER BY rank) AS ranks,
        list(rank ORDER BY rank) FILTER (is_odd) AS odd,
        any_value(later_count) AS later_count,
        min(called_ns) AS called_ns,
        arg_min(place, (called_ns, rank)) AS place
    FROM compared_call
    GROUP BY run_id, process_group, sequence
    UNION ALL
    SELECT
        run_id,
        process_group,
        pair,
        NULL,
        min(name),
        max(element_count),
        list(DISTINCT rank ORDER BY rank),
        NULL,
        count(*) - 1,
        min(called_ns),
        arg_min(place, (called_ns, rank))
    FROM call
    WHERE is_p2p AND NOT is_over
    GROUP BY run_id, process_group, pair
),

-- For a pair, its two ranks of the group.
expected AS (
    SELECT
        called.run_id,
        called.process_group,
        pair,
        list(reach.rank ORDER BY reach.rank) FILTER (trace_id IS NOT NULL) AS missing,
        list(reach.rank ORDER BY reach.rank) FILTER (trace_id IS NULL) AS absent,
        arg_min(last_place, (sequence, reach.rank)) AS missing_place
    FROM called
    INNER JOIN (
        SELECT * EXCLUDE (sequence), sequence AS reached,
            row_number() OVER (PARTITION BY run_id, process_group ORDER BY rank) - 1 AS own
        FROM graph.collective_reach
    ) AS reach USING (run_id, process_group)
    WHERE
        NOT list_contains(ranks, reach.rank)
        AND coalesce(
            reached < sequence, list_contains(string_split(pair, '->'), reach.own::VARCHAR)
        )
    GROUP BY called.run_id, called.process_group, pair
)

SELECT
    run_id,
    process_group,
    pair,
    sequence,
    name,
    array_to_string(ranks, ', '),
    coalesce(array_to_string(missing, ', '), ''),
    called.place,
    missing_place,
    coalesce(array_to_string(absent, ', '), ''),
    coalesce(array_to_string(odd, ', '), ''),
    element_count,
    later_count,
    called_ns
FROM called
LEFT JOIN expected USING (run_id, process_group, pair)
ORDER BY run_id, called_ns, process_group, pair;
