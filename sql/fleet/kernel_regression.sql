-- Which kernels take longer, or less, than in the run before? Medians of ranks are compared;
-- the noise is how far those of one run lie apart.
-- One row per run, but for the first, and kernel that the run before has as well.
-- Key: run, name.
CREATE VIEW fleet.kernel_regression (
    -- The run.
    run,
    -- The run before it, by the begin of its first step.
    run_before,
    -- Name of the kernel.
    name,
    -- [ns] Median over its traces of the kernel's median.
    median_ns,
    -- [ns] The same, of the run before.
    before_ns,
    -- [1] The change, over that.
    change_share,
    -- [ns] How far medians of traces lie apart at most, in either run.
    noise_ns,
    -- Whether the change is larger than the noise, and than 1 %.
    is_clear,
    -- [ns] The change, times how often it ran.
    effect_ns
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

typical AS (
    SELECT
        run,
        name,
        sum(occurrences) AS occurrences,
        CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY median_ns)) AS BIGINT) AS median_ns,
        max(median_ns) - min(median_ns) AS spread_ns
    FROM fleet.kernel AS kernel
    INNER JOIN fleet.trace AS trace ON kernel.trace_id = trace.trace_id
    GROUP BY run, name
),

compared AS (
    SELECT
        followed.run,
        run_before,
        after.name,
        after.occurrences,
        after.median_ns,
        before.median_ns AS before_ns,
        after.median_ns - before.median_ns AS change_ns,
        greatest(after.spread_ns, before.spread_ns) AS noise_ns
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
    abs(change_ns) > noise_ns AND abs(change_ns) * 100 > before_ns,
    CAST(change_ns * occurrences AS BIGINT) AS effect_ns
FROM compared
ORDER BY run, abs(effect_ns) DESC, name;
