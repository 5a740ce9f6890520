-- Parsed lists of arguments or results: which are tensors, and their sizes. Each text is
-- parsed once, however many ops share it. A list with a size that is not a number, negative
-- or of more than 2^50 elements is excluded as a whole: the work of an op follows from all
-- of it. Strides that do not fit their sizes are ignored.
-- One row per list of dimensions, types and strides that has a tensor, and of all of them
-- the shape.
-- Key: dims, types, strides.
CREATE VIEW prediction.op_signature (
    -- Dimensions, as recorded.
    dims,
    -- Types, as recorded.
    types,
    -- Strides, as recorded; NULL if they were not.
    strides,
    -- Its tensors, in order; those of a list one by one. `argument` counts from 0, `dims`
    -- are the sizes, `strides` how many elements apart the next ones along each of them lie
    -- (NULL: not recorded), `elements` the product of the sizes, `distinct` that of those
    -- along which it is not expanded, `element` what each of them is (NULL: unknown).
    tensors,
    -- The largest element of a floating type, otherwise of any; NULL if none is recorded.
    -- `size` is in bytes, `name` the type as the kernel models name it, `unit` what
    -- multiplies it (`prediction.op_dtype`).
    element,
    -- Elements of what the tensors broadcast to; those of the largest if they do not.
    broadcast_elements,
    -- Whether every list of tensors has its shapes.
    is_complete
) AS
WITH
signature AS (
    SELECT row_number() OVER () AS signature_id, *
    FROM (
        SELECT input_dims AS dims, input_types AS types, input_strides AS strides
        FROM prediction.op_argument
        SEMI JOIN prediction.working_op USING (op_id)
        UNION
        SELECT output_dims, output_types, NULL
        FROM prediction.op_argument
        SEMI JOIN prediction.working_op USING (op_id)
    )
    WHERE dims IS NOT NULL
),

argument AS (
    SELECT
        signature_id,
        unnest(range(0, json_array_length(dims)::BIGINT)) AS argument,
        unnest(from_json(dims, '["JSON"]')) AS shape,
        unnest(from_json(types, '["VARCHAR"]')) AS type,
        unnest(CASE
            WHEN json_array_length(strides) = json_array_length(dims)
                THEN from_json(strides, '["JSON"]')
        END) AS pitch
    FROM signature
),

item AS (
    SELECT
        signature_id,
        argument,
        json_type(shape, '$[0]') IS NOT DISTINCT FROM 'ARRAY' AS is_listed,
        type = 'TensorList' AND json_array_length(shape) = 0 AS is_bare_list,
        unnest(CASE WHEN is_listed THEN from_json(shape, '["JSON"]') ELSE [shape] END) AS shape,
        unnest(
            CASE
                WHEN is_listed
                    THEN string_split(regexp_extract(type, '^GenericList\[(.*)\]$', 1), ',')
                ELSE [type]
            END
        ) AS type,
        unnest(
            CASE
                WHEN NOT is_listed THEN [pitch]
                WHEN json_array_length(pitch) = json_array_length(shape)
                    THEN from_json(pitch, '["JSON"]')
            END
        ) AS pitch,
        unnest(
            CASE WHEN is_listed THEN range(0, json_array_length(shape)::BIGINT) ELSE [0] END
        ) AS ordinal
    FROM argument
),

tensor AS (
    SELECT
        signature_id,
        argument,
        item.ordinal,
        from_json(shape, '["BIGINT"]') AS dims,
        from_json(pitch, '["BIGINT"]') AS pitches,
        coalesce(list_bool_and([coalesce(size >= 0, false) for size in dims]), true)
        AND coalesce(list_product([greatest(size, 1) for size in dims]), 1) <= 1_125_899_906_842_624
        AS is_possible,
        CASE WHEN is_possible THEN coalesce(list_product(dims), 1)::BIGINT END AS elements,
        CASE
            WHEN len(pitches) = len(dims) AND list_bool_and([
                coalesce(step BETWEEN 0 AND 1_125_899_906_842_624, false) for step in pitches
            ])
                THEN pitches
        END AS strides,
        CASE WHEN is_possible THEN coalesce(list_product([
            CASE WHEN strides[n] = 0 THEN least(dims[n], 1) ELSE dims[n] END
            for n in generate_series(1, len(dims))
        ]), 1)::BIGINT END AS distinct_elements,
        CASE
            WHEN dtype.dtype IS NOT NULL THEN {
                'size': dtype.element_bytes, 'name': dtype.model_dtype, 'unit': dtype.unit
            }
        END AS element,
        coalesce(dtype.is_floating, true) AS is_floating
    FROM item
    LEFT JOIN prediction.op_dtype AS dtype
        ON coalesce(nullif(regexp_extract(type, '^Tensor\((.*)\)$', 1), ''), type) = dtype.dtype
    WHERE
        dtype.dtype IS NOT NULL
        OR (coalesce(type, '') = '' AND json_array_length(shape) > 0)
),

broadcast AS (
    SELECT
        signature_id,
        least(abs(product(size)), 4_611_686_018_427_387_904)::BIGINT AS elements,
        bool_and(is_compatible) AS is_compatible
    FROM (
        SELECT
            signature_id,
            from_end,
            max(size) AS size,
            count(DISTINCT size) FILTER (size > 1) <= 1 AS is_compatible
        FROM (
            SELECT
                signature_id,
                unnest(dims) AS size,
                len(dims) - generate_subscripts(dims, 1) AS from_end
            FROM tensor
        )
        GROUP BY signature_id, from_end
    )
    GROUP BY signature_id
),

bare AS (
    SELECT signature_id, bool_or(is_bare_list) AND NOT bool_or(is_listed) AS has_bare_list
    FROM item
    GROUP BY signature_id
),

listed AS (
    SELECT
        signature_id,
        list(
            {'argument': argument, 'dims': dims, 'strides': strides, 'elements': elements,
                'distinct': distinct_elements, 'element': element}
            ORDER BY argument, ordinal
        ) AS tensors,
        coalesce(
            max(element) FILTER (is_floating AND len(dims) > 0),
            max(element)
        ) AS largest,
        max(elements) AS largest_elements
    FROM tensor
    GROUP BY signature_id
    HAVING bool_and(is_possible) AND sum(elements) <= 1_125_899_906_842_624
)

SELECT
    dims,
    types,
    strides,
    tensors,
    largest,
    CASE
        WHEN is_compatible AND elements <= 1_125_899_906_842_624 THEN elements
        ELSE largest_elements
    END,
    NOT coalesce(has_bare_list, false)
FROM signature
INNER JOIN listed USING (signature_id)
INNER JOIN bare USING (signature_id)
LEFT JOIN broadcast USING (signature_id);
