-- Which ranks do the others wait for? In a collective, the rank that arrives last waits
-- least; if it had arrived with the second to last, all others would have finished that
-- much sooner. Only durations are compared, so clocks do not matter.
-- Without collectives that ranks of a run share it is empty.
-- One row per run and rank that shares collectives with others.
-- Key: run, rank.
CREATE VIEW fleet.straggler (
    -- The run.
    run,
    -- The rank.
    rank,
    -- Its host, if the file name contains it.
    host,
    -- Collectives that it shares with other ranks.
    collective_count,
    -- Those at which it arrived last.
    last_count,
    -- [ns] How much sooner these would have started if it had arrived with the second to
    -- last.
    caused_ns,
    -- [1] That, as a share of the total caused by all ranks of the run.
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
