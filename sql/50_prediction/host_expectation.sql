-- How long a span of host time in a step is expected to be, from spans like it
-- elsewhere: their median, times the typical factor. Alike is the most that two others at
-- least share: type, name, thread role, shapes and ordinal in the step; without the
-- ordinal; type and name (as in Lin et al. 2022, section 3); or the type alone. The factor
-- is the time of a step's spans of one type and role over the sum of their medians, of that
-- the median over steps. So a step that was held up once does not prolong all others, as it
-- does a mean; and sums of medians alone are too short. Spans that are alike in shapes or
-- ordinal, in name, and in type alone have a factor each: a median of what only shares the
-- type is often many times too short, which says nothing of a span that repeats.
-- One row per source to learn from that a method needs, and span.
-- Key: host_from, thread_id, position.
CREATE TABLE prediction.host_expectation (
    -- Where it is learnt from, as in `prediction.method`.
    host_from,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- What is alike: `ordinal`, `shapes`, `name` or `type`.
    alike,
    -- Spans that are alike.
    sample_count,
    -- [ns] Their median.
    median_ns,
    -- [ns] The median, times the factor.
    expected_ns
) AS
WITH
span AS MATERIALIZED (
    FROM prediction.alike_sample
),

-- Each span under all that it can be alike in, from coarse to fine.
keyed AS NOT MATERIALIZED (
    SELECT
        host_from, pool_id, excluded_id, sample_ns, fineness,
        CASE fineness
            WHEN 1 THEN type_key WHEN 2 THEN name_key WHEN 3 THEN shapes_key
            ELSE ordinal_key
        END AS key
    FROM span
    CROSS JOIN (VALUES (1), (2), (3), (4)) AS level (fineness)
),

part AS (
    SELECT host_from, pool_id, excluded_id, fineness, key, count(*) AS own_count
    FROM keyed
    GROUP BY ALL
),

-- Where enough others are alike.
enough AS (
    SELECT
        *,
        sum(own_count) OVER (PARTITION BY host_from, pool_id, fineness, key)
        - CASE WHEN excluded_id IS NULL THEN 0 ELSE own_count END AS sample_count
    FROM part
    QUALIFY sample_count >= 2
),

-- For each span the finest of these, and with whom it shares its factor.
chosen AS (
    SELECT
        span.*,
        coalesce(by_ordinal.fineness, by_shapes.fineness, by_name.fineness, by_type.fineness)
        AS fineness,
        least(coalesce(by_ordinal.fineness, by_shapes.fineness, by_name.fineness, 1), 3)
        AS factor_group,
        coalesce(by_ordinal.key, by_shapes.key, by_name.key, by_type.key) AS key,
        coalesce(
            by_ordinal.sample_count, by_shapes.sample_count, by_name.sample_count,
            by_type.sample_count
        ) AS sample_count
    FROM span
    LEFT JOIN enough AS by_ordinal
        ON
            span.host_from = by_ordinal.host_from
            AND span.pool_id = by_ordinal.pool_id
            AND span.excluded_id IS NOT DISTINCT FROM by_ordinal.excluded_id
            AND by_ordinal.fineness = 4
            AND span.ordinal_key = by_ordinal.key
    LEFT JOIN enough AS by_shapes
        ON
            span.host_from = by_shapes.host_from
            AND span.pool_id = by_shapes.pool_id
            AND span.excluded_id IS NOT DISTINCT FROM by_shapes.excluded_id
            AND by_shapes.fineness = 3
            AND span.shapes_key = by_shapes.key
    LEFT JOIN enough AS by_name
        ON
            span.host_from = by_name.host_from
            AND span.pool_id = by_name.pool_id
            AND span.excluded_id IS NOT DISTINCT FROM by_name.excluded_id
            AND by_name.fineness = 2
            AND span.name_key = by_name.key
    INNER JOIN enough AS by_type
        ON
            span.host_from = by_type.host_from
            AND span.pool_id = by_type.pool_id
            AND span.excluded_id IS NOT DISTINCT FROM by_type.excluded_id
            AND by_type.fineness = 1
            AND span.type_key = by_type.key
),

-- The median of what the spans that are alike learn from.
alike_median AS (
    SELECT
        wanted.host_from, wanted.pool_id, wanted.excluded_id, wanted.fineness, wanted.key,
        median(keyed.sample_ns) AS median_ns
    FROM (
        SELECT DISTINCT host_from, pool_id, excluded_id, fineness, key FROM chosen
    ) AS wanted
    INNER JOIN keyed
        ON
            wanted.host_from = keyed.host_from
            AND wanted.pool_id = keyed.pool_id
            AND wanted.fineness = keyed.fineness
            AND wanted.key = keyed.key
            AND coalesce(wanted.excluded_id <> keyed.excluded_id, true)
    GROUP BY ALL
),

typical_factor AS (
    SELECT
        host_from, pool_id, excluded_id, type, role, factor_group, median(factor) AS factor
    FROM (
        SELECT
            alike_median.host_from, alike_median.pool_id, alike_median.excluded_id, type, role,
            factor_group, step_id,
            sum(sample_ns) / sum(median_ns) AS factor
        FROM alike_median
        INNER JOIN chosen
            ON
                alike_median.host_from = chosen.host_from
                AND alike_median.pool_id = chosen.pool_id
                AND alike_median.fineness = chosen.fineness
                AND alike_median.key = chosen.key
                AND coalesce(alike_median.excluded_id <> chosen.excluded_id, true)
        GROUP BY ALL
        HAVING sum(median_ns) > 0
    )
    GROUP BY ALL
)

SELECT
    chosen.host_from,
    run_id,
    trace_id,
    thread_id,
    position,
    ['type', 'name', 'shapes', 'ordinal'][chosen.fineness],
    sample_count::BIGINT,
    round(median_ns)::BIGINT,
    round(median_ns * coalesce(factor, 1))::BIGINT
FROM chosen
INNER JOIN alike_median
    ON
        chosen.host_from = alike_median.host_from
        AND chosen.pool_id = alike_median.pool_id
        AND chosen.fineness = alike_median.fineness
        AND chosen.key = alike_median.key
        AND chosen.excluded_id IS NOT DISTINCT FROM alike_median.excluded_id
LEFT JOIN typical_factor
    ON
        chosen.host_from = typical_factor.host_from
        AND chosen.pool_id = typical_factor.pool_id
        AND chosen.type = typical_factor.type
        AND chosen.role = typical_factor.role
        AND chosen.factor_group = typical_factor.factor_group
        AND chosen.excluded_id IS NOT DISTINCT FROM typical_factor.excluded_id;
