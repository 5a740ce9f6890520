-- Distribution of span times for each overhead type (Lin et al. 2022, section 3), grouped
-- as in the paper and finer. Outliers lie beyond 1.5 times the interquartile range.
-- One row per scope, grouping and group.
-- Key: scope, run_id, trace_id, grouping, type, name, role, shapes, module.
CREATE VIEW overhead.statistic (
    -- `trace`, `run` (all its ranks) or `shared` (all runs).
    scope,
    -- The run; NULL for scope `shared`.
    run_id,
    -- The trace; NULL for scopes `run` and `shared`.
    trace_id,
    -- The grouping: `type`, `name`, `role`, `shapes` (name and shapes) or `module` (name
    -- and module), always within a type. Columns that a grouping does not use are NULL.
    grouping,
    -- Overhead type.
    type,
    -- Name of the op (T2, T3, T5) or of the call (T4); for T1, the op or the call after it.
    name,
    -- Role of the host thread.
    role,
    -- Dimensions of the op's arguments; for a call, the op's name and these dimensions.
    shapes,
    -- The module of the op, with its enclosing modules.
    module,
    -- Spans.
    sample_count,
    -- [ns] Mean.
    mean_ns,
    -- [ns] Population standard deviation.
    deviation_ns,
    -- [ns] 10th percentile.
    p10_ns,
    -- [ns] Median.
    median_ns,
    -- [ns] 90th percentile.
    p90_ns,
    -- [ns] Mean without outliers.
    trimmed_mean_ns,
    -- Outliers.
    outlier_count
) AS
WITH
sample AS (
    SELECT sample.*, module_call.path AS module
    FROM overhead.sample AS sample
    INNER JOIN overhead.timeline AS span
        ON sample.thread_id = span.thread_id AND sample.position = span.position
    LEFT JOIN graph.op_module AS op_module ON span.op_id = op_module.op_id
    LEFT JOIN staging.module_call AS module_call USING (module_call_id)
),

grouped AS (
    SELECT
        scope,
        CASE WHEN scope <> 'shared' THEN run_id END AS run_id,
        CASE WHEN scope = 'trace' THEN trace_id END AS trace_id,
        grouping,
        type,
        CASE WHEN grouping IN ('name', 'shapes', 'module') THEN name END AS name,
        CASE WHEN grouping = 'role' THEN role END AS role,
        CASE WHEN grouping = 'shapes' THEN shapes END AS shapes,
        CASE WHEN grouping = 'module' THEN module END AS module,
        sample_ns
    FROM sample
    CROSS JOIN (VALUES ('trace'), ('run'), ('shared')) AS pooled (scope)
    CROSS JOIN (
        VALUES ('type'), ('name'), ('role'), ('shapes'), ('module')
    ) AS alike (grouping)
    WHERE grouping <> 'module' OR module IS NOT NULL
),

with_quartiles AS (
    SELECT
        *,
        quantile_cont(sample_ns, [0.25, 0.75]) OVER (
            PARTITION BY
                scope, run_id, trace_id, grouping, type, name, role, shapes, module
        ) AS quartiles,
        abs(sample_ns - (quartiles[1] + quartiles[2]) / 2)
        > 2 * (quartiles[2] - quartiles[1]) AS is_outlier
    FROM grouped
)

SELECT
    scope,
    run_id,
    trace_id,
    grouping,
    type,
    name,
    role,
    shapes,
    module,
    count(*),
    round(avg(sample_ns))::BIGINT,
    round(stddev_pop(sample_ns))::BIGINT,
    quantile_disc(sample_ns, 0.1),
    quantile_disc(sample_ns, 0.5),
    quantile_disc(sample_ns, 0.9),
    round(avg(sample_ns) FILTER (NOT is_outlier))::BIGINT,
    count(*) FILTER (is_outlier)
FROM with_quartiles
GROUP BY scope, run_id, trace_id, grouping, type, name, role, shapes, module;
