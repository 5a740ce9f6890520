-- Values that do not fit their field: text that is not a list, a size that is not a number
-- or has more elements than a machine can hold, an invalid number, a correlation that calls
-- of several processes have, arguments that are not an object. The relations above have NULL
-- for them, or exclude their rows. Also categories of slices that no relation reads.
-- One row per field of a trace that has such values.
-- Key: trace_id, field.
CREATE VIEW staging.unread_value (
    -- The trace.
    trace_id,
    -- Name of the field in the profiler's file, or the category, and what to do.
    field,
    -- Number of events with such a value; 1 for fields of the header.
    occurrences,
    -- The first of these events; NULL for the header.
    first_event_id
) AS
WITH
-- Arguments are parsed again only if nothing came of them although they contain the name.
suspect AS (
    SELECT op_id AS event_id, trace_id, field
    FROM staging.op
    CROSS JOIN (
        VALUES ('Input Dims'), ('Input dims'), ('Input type'), ('Concrete Inputs'),
        ('Input Strides'), ('External id'), ('Sequence number')
    ) AS read (field)
    WHERE
        CASE lower(field)
            WHEN 'input dims' THEN input_dims IS NULL
            WHEN 'input type' THEN input_types IS NULL
            WHEN 'input strides' THEN input_strides IS NULL
            WHEN 'concrete inputs' THEN concrete_inputs IS NULL
            WHEN 'external id' THEN external_id IS NULL
            ELSE sequence_number IS NULL
        END
    UNION ALL
    SELECT call_id, trace_id, 'correlation'
    FROM staging.call
    WHERE correlation IS NULL
    UNION ALL
    SELECT gpu_op_id, trace_id, field
    FROM staging.gpu_op
    CROSS JOIN (
        VALUES ('correlation'), ('device'), ('stream'), ('bytes')
    ) AS read (field)
    WHERE
        CASE field
            WHEN 'correlation' THEN correlation IS NULL
            WHEN 'device' THEN device IS NULL
            WHEN 'stream' THEN stream IS NULL
            ELSE moved_bytes IS NULL AND kind IN ('memcpy', 'memset')
        END
),

-- Sizes as numbers: anything that is not a number in a list of lists is ignored here, too.
shape AS (
    SELECT trace_id, event_id, occurrences, unnest(from_json(dims, '["JSON"]')) AS sizes
    FROM (
        SELECT
            trace_id,
            input_dims AS dims,
            min(op_id) AS event_id,
            count(*) AS occurrences
        FROM staging.op
        WHERE input_dims IS NOT NULL
        GROUP BY trace_id, dims
    )
),

odd_shape AS (
    SELECT trace_id, event_id, any_value(occurrences) AS occurrences
    FROM shape
    WHERE
        json_type(sizes, '$[0]') IS DISTINCT FROM 'ARRAY'
        AND NOT (
            coalesce(list_bool_and([
                coalesce(size >= 0, false) for size in from_json(sizes, '["BIGINT"]')
            ]), true)
            AND coalesce(list_product([
                greatest(size, 1) for size in from_json(sizes, '["BIGINT"]')
            ]), 1) <= 1_125_899_906_842_624
        )
    GROUP BY trace_id, event_id
),

unread AS (
    SELECT
        suspect.trace_id,
        suspect.event_id,
        CASE
            WHEN field = 'correlation' AND call_id IS NOT NULL
                AND try_cast(args ->> '$.correlation' AS BIGINT) IS NOT NULL
                THEN 'correlation that several processes have: ingest the files of the ranks, '
                    || 'not one merged from them'
            WHEN json_type(args) <> 'OBJECT' THEN 'args that are not an object'
            ELSE field
        END AS field
    FROM suspect
    INNER JOIN raw.event
        ON suspect.event_id = raw.event.event_id AND suspect.trace_id = raw.event.trace_id
    LEFT JOIN staging.call ON suspect.event_id = call_id
    WHERE
        contains(args, field)
        AND (
            json_type(args) <> 'OBJECT'
            OR json_type(args, '$."' || field || '"') <> 'NULL'
        )
),

category AS (
    SELECT
        trace_id,
        nullif(cat, '') AS cat,
        count(*) AS occurrences,
        min(event_id) AS first_event_id
    FROM raw.event
    -- Others without a time or a duration are counted as such.
    WHERE ph IN ('X', 'B') AND (cat <> '' OR ts_ns IS NOT NULL AND dur_ns >= 0)
    GROUP BY ALL
)

SELECT trace_id, field, count(DISTINCT event_id), min(event_id)
FROM unread
GROUP BY trace_id, field
UNION ALL
SELECT
    trace_id,
    coalesce(
        'category ' || arg_max(cat, (category.occurrences, cat))
        || CASE WHEN count(*) > 1 THEN concat(' and ', count(*) - 1, ' more') ELSE '' END,
        'slices without a category'
    ),
    sum(category.occurrences)::BIGINT,
    min(first_event_id)
FROM category
INNER JOIN raw.trace USING (trace_id)
WHERE header ->> '$.source.tool' IS NULL AND NOT staging.is_read_category(cat)
GROUP BY trace_id, cat IS NULL
UNION ALL
SELECT trace_id, 'sizes in Input Dims', sum(occurrences)::BIGINT, min(event_id)
FROM odd_shape
GROUP BY trace_id
UNION ALL
SELECT trace_id, 'baseTimeNanoseconds', 1, NULL
FROM staging.trace
INNER JOIN raw.trace USING (trace_id)
WHERE
    base_ns = 0
    AND coalesce(try_cast(header ->> '$.baseTimeNanoseconds' AS BIGINT) <> 0, true)
    AND json_exists(header, '$.baseTimeNanoseconds')
UNION ALL
SELECT trace_id, 'world_size', 1, NULL
FROM staging.trace
INNER JOIN raw.trace USING (trace_id)
WHERE world_size IS NULL AND json_exists(header, '$.distributedInfo.world_size')
UNION ALL
SELECT trace_id, 'rank', 1, NULL
FROM raw.trace
WHERE try_cast(header ->> '$.distributedInfo.rank' AS BIGINT) < 0
UNION ALL
SELECT trace_id, 'correlation of a wait that another one had before', count(*), min(call_id)
FROM (
    SELECT *
    FROM staging.call
    WHERE correlation IS NOT NULL AND kind = 'wait'
    QUALIFY start_ns > max(end_ns) OVER (
        PARTITION BY thread_id, correlation ORDER BY start_ns, end_ns DESC, call_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
GROUP BY trace_id;
