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
-- Spans with the class that they are of: those of a class are alike in all.
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

-- Each class under all that it can be alike in, from coarse to fine. Who shares a `level_id`
-- is alike; who shares a `place_id` leaves out the same, too.
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

-- Where enough others are alike.
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

-- For each class the finest of these, and with whom it shares its factor.
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

-- The median of what the spans that are alike learn from.
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

-- A factor is of what is left out, and of who shares it.
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
