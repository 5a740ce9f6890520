-- Expected time of a span of host time in a step, from similar spans elsewhere: their
-- median, multiplied by the typical factor. Similar spans share the most properties that at
-- least two others have: type, name, thread role, shapes and ordinal in the step; without
-- the ordinal; type and name (as in Lin et al. 2022, section 3); or only the type. The
-- factor is the time of a step's spans of one type and role divided by the sum of their
-- medians; its median over steps is used. So a step that was held up once does not lengthen
-- all others, as it would with a mean; and sums of medians alone are too short. Spans that
-- are similar in shapes or ordinal, in name, and only in type have a factor each: a median
-- over spans that only share the type is often many times too short, which says nothing
-- about a span that repeats.
-- One row per span and source that a method learns from.
-- Key: host_from, thread_id, position.
CREATE TABLE prediction.host_expectation (
    -- The source, as in `prediction.method`.
    host_from,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- The level of similarity: `ordinal`, `shapes`, `name` or `type`.
    alike,
    -- Number of similar spans.
    sample_count,
    -- [ns] Their median.
    median_ns,
    -- [ns] The median, multiplied by the factor.
    expected_ns
) AS
WITH
-- Spans with their class: those of a class agree in all properties.
span AS MATERIALIZED (
    SELECT
        *,
        hash(
            host_from, pool_id, excluded_id, role, type_key, name_key, shapes_key, ordinal_key
        ) AS class_id
    FROM prediction.alike_sample
),

-- From here on classes are counted and joined, which are far fewer, by one number each.
class AS MATERIALIZED (
    SELECT
        class_id,
        any_value(host_from) AS host_from,
        any_value(pool_id) AS pool_id,
        any_value(excluded_id) AS excluded_id,
        any_value(type) AS type,
        any_value(role) AS role,
        any_value(type_key) AS type_key,
        any_value(name_key) AS name_key,
        any_value(shapes_key) AS shapes_key,
        any_value(ordinal_key) AS ordinal_key,
        count(*) AS own_count
    FROM span
    GROUP BY class_id
),

-- Each class with all levels of similarity, from coarse to fine. Classes with the same
-- `level_id` are similar; those with the same `place_id` also exclude the same.
keyed AS MATERIALIZED (
    SELECT
        *,
        CASE fineness
            WHEN 1 THEN type_key WHEN 2 THEN name_key WHEN 3 THEN shapes_key
            ELSE ordinal_key
        END AS key,
        hash(host_from, pool_id, fineness, key) AS level_id,
        hash(level_id, excluded_id) AS place_id
    FROM class
    CROSS JOIN (VALUES (1), (2), (3), (4)) AS level (fineness)
    WHERE key IS NOT NULL
),

-- Levels with enough similar spans.
enough AS (
    SELECT
        place_id,
        sum(own_count) OVER (PARTITION BY level_id)
        - CASE WHEN excluded_id IS NULL THEN 0 ELSE own_count END AS sample_count
    FROM (
        SELECT
            place_id,
            any_value(level_id) AS level_id,
            any_value(excluded_id) AS excluded_id,
            sum(own_count) AS own_count
        FROM keyed
        GROUP BY place_id
    )
    QUALIFY sample_count >= 2
),

-- For each class the finest of these, and the classes with which it shares its factor.
chosen AS MATERIALIZED (
    SELECT
        class_id,
        max(fineness) AS fineness,
        arg_max(level_id, fineness) AS level_id,
        arg_max(place_id, fineness) AS place_id,
        arg_max(sample_count, fineness) AS sample_count,
        any_value(excluded_id) AS excluded_id,
        hash(
            any_value(host_from), any_value(pool_id), any_value(type), any_value(role),
            least(max(fineness), 3)
        ) AS factor_group
    FROM keyed
    INNER JOIN enough USING (place_id)
    GROUP BY class_id
),

-- The median over the similar spans.
alike_median AS MATERIALIZED (
    SELECT
        wanted.place_id,
        any_value(wanted.level_id) AS level_id,
        any_value(wanted.excluded_id) AS excluded_id,
        median(sample_ns) AS median_ns
    FROM (SELECT DISTINCT place_id, level_id, excluded_id FROM chosen) AS wanted
    INNER JOIN keyed
        ON
            wanted.level_id = keyed.level_id
            AND coalesce(wanted.excluded_id <> keyed.excluded_id, true)
    INNER JOIN span ON keyed.class_id = span.class_id
    GROUP BY wanted.place_id
),

-- A factor depends on what is excluded, and on who shares it.
typical_factor AS (
    SELECT factor_id, median(factor) AS factor
    FROM (
        SELECT
            hash(factor_group, alike_median.excluded_id) AS factor_id,
            step_id,
            sum(sample_ns) / sum(median_ns) AS factor
        FROM alike_median
        INNER JOIN chosen
            ON
                alike_median.level_id = chosen.level_id
                AND coalesce(alike_median.excluded_id <> chosen.excluded_id, true)
        INNER JOIN span ON chosen.class_id = span.class_id
        GROUP BY factor_id, step_id
        HAVING sum(median_ns) > 0
    )
    GROUP BY factor_id
),

expected AS (
    SELECT
        class_id,
        ['type', 'name', 'shapes', 'ordinal'][fineness] AS alike,
        sample_count::BIGINT AS sample_count,
        round(median_ns)::BIGINT AS median_ns,
        round(median_ns * coalesce(factor, 1))::BIGINT AS expected_ns
    FROM chosen
    INNER JOIN alike_median ON chosen.place_id = alike_median.place_id
    LEFT JOIN typical_factor
        ON hash(factor_group, chosen.excluded_id) = typical_factor.factor_id
)

SELECT
    host_from, run_id, trace_id, thread_id, position, alike, sample_count, median_ns, expected_ns
FROM span
INNER JOIN expected USING (class_id);
