-- Do host overheads drift? The median span of each type in a run, compared with the
-- previous run on the same host, from the histograms of their traces (`fleet.sketch`). Runs
-- without a host in their file names are compared as if from one host.
-- One row per host, run and overhead type.
-- Key: host, run, type.
CREATE VIEW fleet.overhead_drift (
    -- The host; empty if no file name contains it.
    host,
    -- The run.
    run,
    -- Overhead type.
    type,
    -- [ns] Start of its first step, since 1970.
    start_ns,
    -- [ns] Median of all spans.
    median_ns,
    -- [ns] The same, for the previous run; NULL for the first.
    before_ns,
    -- [1] The change from that, divided by that.
    drift_share
) AS
WITH
began AS (
    SELECT trace_id, min(start_ns) AS start_ns
    FROM fleet.step
    GROUP BY trace_id
),

counted AS (
    SELECT
        coalesce(host, '') AS host,
        run,
        name AS type,
        bucket_ns,
        min(start_ns) AS start_ns,
        sum(occurrences) AS occurrences,
        CAST(sum(total_ns) AS BIGINT) AS total_ns
    FROM fleet.sketch AS sketch
    INNER JOIN fleet.trace AS trace ON sketch.trace_id = trace.trace_id
    INNER JOIN began ON sketch.trace_id = began.trace_id
    WHERE subject = 'overhead'
    GROUP BY coalesce(host, ''), run, name, bucket_ns
),

placed AS (
    SELECT
        host,
        run,
        type,
        min(start_ns) OVER (PARTITION BY host, run, type) AS start_ns,
        CAST(round(total_ns / CAST(occurrences AS BIGINT)) AS BIGINT) AS mean_ns,
        sum(occurrences) OVER (
            PARTITION BY host, run, type ORDER BY bucket_ns
        ) AS until_here,
        sum(occurrences) OVER (PARTITION BY host, run, type) AS all_of_them
    FROM counted
),

typical AS (
    SELECT host, run, type, min(start_ns) AS start_ns, min(mean_ns) AS median_ns
    FROM placed
    WHERE until_here * 2 >= all_of_them
    GROUP BY host, run, type
),

followed AS (
    SELECT
        host,
        run,
        type,
        start_ns,
        median_ns,
        lag(median_ns) OVER (PARTITION BY host, type ORDER BY start_ns, run) AS before_ns
    FROM typical
)

SELECT
    host,
    run,
    type,
    start_ns,
    median_ns,
    before_ns,
    CAST(median_ns - before_ns AS DOUBLE) / CAST(nullif(before_ns, 0) AS DOUBLE)
FROM followed
ORDER BY host, type, start_ns, run;
