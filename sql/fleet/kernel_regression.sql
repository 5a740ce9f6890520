-- Which kernels take longer, or less, than in the previous run? Medians over all ranks are
-- compared, from their histograms (`fleet.sketch`); the noise is the spread between the
-- ranks of one run.
-- Without two runs that have a kernel in common it is empty.
-- One row per kernel and run, except the first, that the previous run has as well.
-- Key: run, name.
CREATE VIEW fleet.kernel_regression (
    -- The run.
    run,
    -- The previous run, by the start of its first step.
    run_before,
    -- Name of the kernel.
    name,
    -- [ns] Median.
    median_ns,
    -- [ns] The same, for the previous run.
    before_ns,
    -- [1] The change, divided by that.
    change_share,
    -- [ns] Largest spread of the medians of traces, in either run.
    noise_ns,
    -- Whether the change is larger than the noise, and than the resolution of the
    -- histograms (2 %).
    is_clear,
    -- [ns] The change, multiplied by how often it ran.
    effect_ns,
    -- [ns] 99th percentile.
    p99_ns,
    -- [ns] The same, for the previous run.
    p99_before_ns
) AS
WITH
began AS (
    SELECT run, min(start_ns) AS start_ns
    FROM fleet.step AS step
    INNER JOIN fleet.trace AS trace ON step.trace_id = trace.trace_id
    GROUP BY run
),

followed AS (
    SELECT run, lag(run) OVER (ORDER BY start_ns, run) AS run_before
    FROM began
),

counted AS (
    SELECT
        trace_id,
        name,
        bucket_ns,
        sum(occurrences) AS occurrences,
        CAST(sum(total_ns) AS BIGINT) AS total_ns
    FROM fleet.sketch
    WHERE subject = 'kernel'
    GROUP BY trace_id, name, bucket_ns
),

placed AS (
    SELECT
        trace_id,
        name,
        CAST(round(total_ns / CAST(occurrences AS BIGINT)) AS BIGINT) AS mean_ns,
        sum(occurrences) OVER (PARTITION BY trace_id, name ORDER BY bucket_ns) AS until_here,
        sum(occurrences) OVER (PARTITION BY trace_id, name) AS all_of_them
    FROM counted
),

of_trace AS (
    SELECT trace_id, name, min(mean_ns) AS median_ns
    FROM placed
    WHERE until_here * 2 >= all_of_them
    GROUP BY trace_id, name
),

spread AS (
    SELECT run, name, max(median_ns) - min(median_ns) AS spread_ns
    FROM of_trace
    INNER JOIN fleet.trace AS trace ON of_trace.trace_id = trace.trace_id
    GROUP BY run, name
),

typical AS (
    SELECT run, spread.name, occurrences, p50_ns, p99_ns, spread_ns
    FROM fleet.percentile AS percentile
    INNER JOIN spread ON percentile.member = run AND percentile.name = spread.name
    WHERE scope = 'run' AND subject = 'kernel'
),

compared AS (
    SELECT
        followed.run,
        run_before,
        after.name,
        after.occurrences,
        after.p50_ns AS median_ns,
        before.p50_ns AS before_ns,
        after.p50_ns - before.p50_ns AS change_ns,
        greatest(after.spread_ns, before.spread_ns) AS noise_ns,
        after.p99_ns,
        before.p99_ns AS p99_before_ns
    FROM followed
    INNER JOIN typical AS after ON followed.run = after.run
    INNER JOIN typical AS before
        ON followed.run_before = before.run AND after.name = before.name
)

SELECT
    run,
    run_before,
    name,
    median_ns,
    before_ns,
    CAST(change_ns AS DOUBLE) / CAST(nullif(before_ns, 0) AS DOUBLE),
    noise_ns,
    abs(change_ns) > noise_ns AND abs(change_ns) * 50 > before_ns,
    CAST(change_ns * occurrences AS BIGINT) AS effect_ns,
    p99_ns,
    p99_before_ns
FROM compared
ORDER BY run, abs(effect_ns) DESC, name;
