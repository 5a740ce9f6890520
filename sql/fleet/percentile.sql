-- How long do kernels, ops, overheads, collectives and steps take? Percentiles by run, by
-- host, by week and by hundred steps, from the summed histograms of their traces
-- (`fleet.sketch`); they have an error below 0.8 %.
-- One row per scope, member, subject and name; the longest total first.
-- Key: scope, member, subject, name.
CREATE VIEW fleet.percentile (
    -- `run`, `host`, `week`, or `steps` (a hundred steps of a run).
    scope,
    -- The run; the host; the week's Monday, in UTC; the run, and the first of the steps.
    member,
    -- What is timed, as in `fleet.sketch`.
    subject,
    -- Its name.
    name,
    -- How often it was timed.
    occurrences,
    -- [ns] The sum.
    total_ns,
    -- [ns] Median.
    p50_ns,
    -- [ns] 90th percentile.
    p90_ns,
    -- [ns] 99th percentile.
    p99_ns
) AS
WITH
-- Weeks since Monday, the 5th of January 1970.
began AS (
    SELECT trace_id, min(start_ns) - 345600000000000 AS start_ns
    FROM fleet.step
    GROUP BY trace_id
),

week AS (
    SELECT
        trace_id,
        CAST(
            round((start_ns - start_ns % 604800000000000) / 86400000000000) AS INTEGER
        ) AS days
    FROM began
),

member AS (
    SELECT trace_id, 'run' AS scope, run AS member
    FROM fleet.trace
    UNION ALL
    SELECT trace_id, 'host', host
    FROM fleet.trace
    WHERE host IS NOT NULL
    UNION ALL
    SELECT trace_id, 'week', CAST(DATE '1970-01-05' + days AS STRING)
    FROM week
),

timed AS (
    SELECT scope, member, subject, name, bucket_ns, occurrences, total_ns
    FROM fleet.sketch AS sketch
    INNER JOIN member ON sketch.trace_id = member.trace_id
    UNION ALL
    SELECT
        'steps',
        run || ' ' || CAST(first_step AS STRING),
        subject,
        name,
        bucket_ns,
        occurrences,
        total_ns
    FROM fleet.sketch AS sketch
    INNER JOIN fleet.trace AS trace ON sketch.trace_id = trace.trace_id
    WHERE first_step IS NOT NULL
),

added AS (
    SELECT
        scope,
        member,
        subject,
        name,
        bucket_ns,
        CAST(sum(occurrences) AS BIGINT) AS occurrences,
        CAST(sum(total_ns) AS BIGINT) AS total_ns
    FROM timed
    GROUP BY scope, member, subject, name, bucket_ns
),

placed AS (
    SELECT
        *,
        CAST(round(total_ns / occurrences) AS BIGINT) AS mean_ns,
        sum(occurrences) OVER (
            PARTITION BY scope, member, subject, name ORDER BY bucket_ns
        ) AS until_here,
        sum(occurrences) OVER (PARTITION BY scope, member, subject, name) AS all_of_them
    FROM added
)

SELECT
    scope,
    member,
    subject,
    name,
    CAST(sum(occurrences) AS BIGINT),
    CAST(sum(total_ns) AS BIGINT) AS total_ns,
    min(CASE WHEN until_here * 100 >= all_of_them * 50 THEN mean_ns END),
    min(CASE WHEN until_here * 100 >= all_of_them * 90 THEN mean_ns END),
    min(CASE WHEN until_here * 100 >= all_of_them * 99 THEN mean_ns END)
FROM placed
GROUP BY scope, member, subject, name
ORDER BY scope, member, total_ns DESC, subject, name;
