-- Which ranks do the others wait for? In a collective the rank that comes last waits least,
-- and had it come as the next one, all others would have been done so much sooner. Durations
-- alone are compared, so clocks do not matter.
-- Without collectives that ranks of a run share it is empty.
-- One row per run and rank that shares collectives with others.
-- Key: run, rank.
CREATE VIEW fleet.straggler (
    -- The run.
    run,
    -- The rank.
    rank,
    -- Its host, where the name of the file tells.
    host,
    -- Collectives that it shares with other ranks.
    collective_count,
    -- Those to which it came last.
    last_count,
    -- [ns] By how much sooner these had started, had it come with the last but one.
    caused_ns,
    -- [1] That, over what all ranks of the run caused.
    caused_share
) AS
WITH
timed AS (
    SELECT
        run,
        rank,
        host,
        duration_ns,
        row_number() OVER (
            PARTITION BY run, process_group, kind, number ORDER BY duration_ns, collective.trace_id
        ) AS place,
        lead(duration_ns) OVER (
            PARTITION BY run, process_group, kind, number ORDER BY duration_ns, collective.trace_id
        ) AS next_ns,
        count(*) OVER (PARTITION BY run, process_group, kind, number) AS ranks
    FROM fleet.collective AS collective
    INNER JOIN fleet.trace AS trace ON collective.trace_id = trace.trace_id
),

caused AS (
    SELECT
        run,
        rank,
        min(host) AS host,
        count(*) AS collective_count,
        sum(CASE WHEN place = 1 THEN 1 ELSE 0 END) AS last_count,
        sum(CASE WHEN place = 1 THEN next_ns - duration_ns ELSE 0 END) AS caused_ns
    FROM timed
    WHERE ranks > 1
    GROUP BY run, rank
)

SELECT
    run,
    rank,
    host,
    collective_count,
    CAST(last_count AS BIGINT),
    CAST(caused_ns AS BIGINT),
    CAST(caused_ns AS DOUBLE)
    / CAST(nullif(sum(caused_ns) OVER (PARTITION BY run), 0) AS DOUBLE)
FROM caused
ORDER BY run, caused_ns DESC, rank;
