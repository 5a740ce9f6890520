-- Elements of a tensor along one or several of its dimensions; NULL if not recorded, or
-- without such a dimension.
CREATE MACRO prediction.elements_along(
    -- Sizes of the tensor.
    sizes,
    -- A dimension, or a list of them, as text; the last is -1.
    dimensions
) AS (
    TRY(list_product([
        sizes[CASE WHEN d < 0 THEN len(sizes) + d + 1 ELSE d + 1 END]
        for d in coalesce(
            try_cast(dimensions AS BIGINT []), [try_cast(dimensions AS BIGINT)]
        )
    ]))::BIGINT
);
