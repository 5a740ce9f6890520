-- How long a piece of host time in a step is expected to be, from pieces like it
-- elsewhere: their median, and the jitter. Alike is the most that two others at least
-- share: type, name, thread role, shapes and place in the step; without the place; type
-- and name (as in Lin et al. 2022, section 3); or the type alone. The jitter is what pieces
-- of one type and role have beyond their medians: the mean of a step, of that the median
-- over steps. So a step that was held up once does not prolong all others, as a mean does
-- (and sums of medians are too short).
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
    -- [ns] Median and jitter.
    expected_ns
) AS
WITH
keyed AS MATERIALIZED (
    FROM prediction.alike_sample
),

part AS (
    SELECT host_from, pool_id, excluded_id, fineness, key, count(*) AS sample_count
    FROM keyed
    GROUP BY ALL
),

-- How many others are alike.
counted AS (
    SELECT
        * EXCLUDE (sample_count),
        sum(sample_count) OVER (PARTITION BY host_from, pool_id, fineness, key)
        - CASE WHEN excluded_id IS NULL THEN 0 ELSE sample_count END AS sample_count
    FROM part
),

-- Of each piece the finest of which there are enough counts; those of the finer are fewer.
judged AS (
    SELECT
        keyed.*,
        counted.sample_count,
        counted.sample_count >= 2 AND coalesce(finer.sample_count, 0) < 2 AS is_finest
    FROM keyed
    INNER JOIN counted
        ON
            keyed.host_from = counted.host_from
            AND keyed.pool_id = counted.pool_id
            AND keyed.fineness = counted.fineness
            AND keyed.key = counted.key
            AND keyed.excluded_id IS NOT DISTINCT FROM counted.excluded_id
    LEFT JOIN counted AS finer
        ON
            keyed.host_from = finer.host_from
            AND keyed.pool_id = finer.pool_id
            AND keyed.fineness + 1 = finer.fineness
            AND keyed.finer_key = finer.key
            AND keyed.excluded_id IS NOT DISTINCT FROM finer.excluded_id
),

chosen AS (
    FROM judged
    WHERE is_finest
),

-- The median of what the pieces that are alike learn from.
typical AS (
    SELECT
        wanted.host_from, wanted.pool_id, wanted.excluded_id, wanted.fineness, wanted.key,
        median(judged.sample_ns) AS median_ns
    FROM (
        SELECT DISTINCT host_from, pool_id, excluded_id, fineness, key FROM chosen
    ) AS wanted
    INNER JOIN judged
        ON
            wanted.host_from = judged.host_from
            AND wanted.pool_id = judged.pool_id
            AND wanted.fineness = judged.fineness
            AND wanted.key = judged.key
            AND coalesce(wanted.excluded_id <> judged.excluded_id, true)
    GROUP BY ALL
),

jitter AS (
    SELECT host_from, pool_id, excluded_id, type, role, median(factor) AS factor
    FROM (
        SELECT
            typical.host_from, typical.pool_id, typical.excluded_id, type, role, step_id,
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
LEFT JOIN jitter
    ON
        chosen.host_from = jitter.host_from
        AND chosen.pool_id = jitter.pool_id
        AND chosen.type = jitter.type
        AND chosen.role = jitter.role
        AND chosen.excluded_id IS NOT DISTINCT FROM jitter.excluded_id;
