-- Which hosts are late again and again? A host is late in a run if one of its ranks causes
-- at least twice its share of the total waiting time. Without hosts in file names whose
-- ranks share collectives, it is empty.
-- One row per host.
-- Key: host.
CREATE VIEW fleet.slow_host (
    -- The host.
    host,
    -- Runs in which its ranks share collectives with others.
    run_count,
    -- Runs in which it is late.
    late_run_count,
    -- [ns] Waiting time caused by its ranks, in all runs.
    caused_ns
) AS
WITH
ranked AS (
    SELECT
        run,
        host,
        caused_ns,
        caused_share * count(*) OVER (PARTITION BY run) AS parts
    FROM fleet.straggler
),

by_run AS (
    SELECT run, host, sum(caused_ns) AS caused_ns, max(parts) AS parts
    FROM ranked
    WHERE host IS NOT NULL
    GROUP BY run, host
)

SELECT
    host,
    count(*),
    CAST(sum(CASE WHEN parts >= 2 THEN 1 ELSE 0 END) AS BIGINT) AS late_run_count,
    CAST(sum(caused_ns) AS BIGINT) AS caused_ns
FROM by_run
GROUP BY host
ORDER BY late_run_count DESC, caused_ns DESC, host;
