-- Do host overheads drift? The typical span of each type in a run, against that of the run
-- before it on the same host.
-- One row per host, run and overhead type.
-- Key: host, run, type.
CREATE VIEW fleet.overhead_drift (
    -- The host; empty where no name of a file tells.
    host,
    -- The run.
    run,
    -- Overhead type.
    type,
    -- [ns] Begin of its first step, since 1970.
    start_ns,
    -- [ns] Median over its traces of the median span.
    median_ns,
    -- [ns] The same, of the run before; NULL in the first.
    before_ns,
    -- [1] The change from that, over that.
    drift_share
) AS
WITH
began AS (
    SELECT trace_id, min(start_ns) AS start_ns
    FROM fleet.step
    GROUP BY trace_id
),

typical AS (
    SELECT
        coalesce(host, '') AS host,
        run,
        type,
        min(start_ns) AS start_ns,
        CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY median_ns)) AS BIGINT) AS median_ns
    FROM fleet.overhead AS overhead
    INNER JOIN fleet.trace AS trace ON overhead.trace_id = trace.trace_id
    INNER JOIN began ON overhead.trace_id = began.trace_id
    GROUP BY coalesce(host, ''), run, type
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
