-- How long a piece of host time in a step is expected to be, from pieces like it
-- elsewhere: their median, times the usual factor. Alike is the most that two others at
-- least share: type, name, thread role, shapes and place in the step; without the place;
-- type and name (as in Lin et al. 2022, section 3); or the type alone. The factor is the
-- time of a step's pieces of one type and role over the sum of their medians, of that the
-- median over steps. So a step that was held up once does not prolong all others, as it
-- does a mean; and sums of medians alone are too short. Pieces that are alike in shapes or
-- place, in name, and in type alone have a factor each: a median of what only shares the
-- type is often many times too short, which says nothing of a piece that repeats.
-- One row per place to learn from that a rung needs, and piece.
-- Key: host_from, thread_id, position.
CREATE TABLE prediction.host_expectation (
    -- Where it is learnt from, as in `prediction.rung`.
    host_from,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Place of the piece on its thread.
    position,
    -- What is alike: `place`, `shapes`, `name` or `type`.
    alike,
    -- Pieces that are alike.
    sample_count,
    -- [ns] Their median.
    median_ns,
    -- [ns] The median, times the factor.
    expected_ns
) AS
WITH
piece AS MATERIALIZED (
    FROM prediction.alike_sample
),

-- Each piece under all that it can be alike in, from coarse to fine.
keyed AS NOT MATERIALIZED (
    SELECT
        host_from, pool_id, excluded_id, sample_ns, fineness,
        CASE fineness
            WHEN 1 THEN type_key WHEN 2 THEN name_key WHEN 3 THEN shapes_key
            ELSE place_key
        END AS key
    FROM piece
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

-- For each piece the finest of these, and with whom it shares its factor.
chosen AS (
    SELECT
        piece.*,
        coalesce(by_place.fineness, by_shapes.fineness, by_name.fineness, by_type.fineness)
        AS fineness,
        least(coalesce(by_place.fineness, by_shapes.fineness, by_name.fineness, 1), 3)
        AS factor_group,
        coalesce(by_place.key, by_shapes.key, by_name.key, by_type.key) AS key,
        coalesce(
            by_place.sample_count, by_shapes.sample_count, by_name.sample_count,
            by_type.sample_count
        ) AS sample_count
    FROM piece
    LEFT JOIN enough AS by_place
        ON
            piece.host_from = by_place.host_from
            AND piece.pool_id = by_place.pool_id
            AND piece.excluded_id IS NOT DISTINCT FROM by_place.excluded_id
            AND by_place.fineness = 4
            AND piece.place_key = by_place.key
    LEFT JOIN enough AS by_shapes
        ON
            piece.host_from = by_shapes.host_from
            AND piece.pool_id = by_shapes.pool_id
            AND piece.excluded_id IS NOT DISTINCT FROM by_shapes.excluded_id
            AND by_shapes.fineness = 3
            AND piece.shapes_key = by_shapes.key
    LEFT JOIN enough AS by_name
        ON
            piece.host_from = by_name.host_from
            AND piece.pool_id = by_name.pool_id
            AND piece.excluded_id IS NOT DISTINCT FROM by_name.excluded_id
            AND by_name.fineness = 2
            AND piece.name_key = by_name.key
    INNER JOIN enough AS by_type
        ON
            piece.host_from = by_type.host_from
            AND piece.pool_id = by_type.pool_id
            AND piece.excluded_id IS NOT DISTINCT FROM by_type.excluded_id
            AND by_type.fineness = 1
            AND piece.type_key = by_type.key
),

-- The median of what the pieces that are alike learn from.
typical AS (
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

usual AS (
    SELECT
        host_from, pool_id, excluded_id, type, role, factor_group, median(factor) AS factor
    FROM (
        SELECT
            typical.host_from, typical.pool_id, typical.excluded_id, type, role,
            factor_group, step_id,
            sum(sample_ns) / sum(median_ns) AS factor
        FROM typical
        INNER JOIN chosen
            ON
                typical.host_from = chosen.host_from
                AND typical.pool_id = chosen.pool_id
                AND typical.fineness = chosen.fineness
                AND typical.key = chosen.key
                AND coalesce(typical.excluded_id <> chosen.excluded_id, true)
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
    ['type', 'name', 'shapes', 'place'][chosen.fineness],
    sample_count::BIGINT,
    round(median_ns)::BIGINT,
    round(median_ns * coalesce(factor, 1))::BIGINT
FROM chosen
INNER JOIN typical
    ON
        chosen.host_from = typical.host_from
        AND chosen.pool_id = typical.pool_id
        AND chosen.fineness = typical.fineness
        AND chosen.key = typical.key
        AND chosen.excluded_id IS NOT DISTINCT FROM typical.excluded_id
LEFT JOIN usual
    ON
        chosen.host_from = usual.host_from
        AND chosen.pool_id = usual.pool_id
        AND chosen.type = usual.type
        AND chosen.role = usual.role
        AND chosen.factor_group = usual.factor_group
        AND chosen.excluded_id IS NOT DISTINCT FROM usual.excluded_id;
