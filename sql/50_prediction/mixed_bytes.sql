-- [B] The bytes of tensors as large as the first, if one has another type than the widest,
-- because their number does not determine their bytes then. Otherwise NULL.
CREATE MACRO prediction.mixed_bytes(
    -- Tensors, as `prediction.op_shape` has them.
    all_tensors,
    -- [B] Element of the widest type.
    widest_bytes
) AS (
    CASE
        WHEN
            list_bool_or([
                t.size <> t.elements * widest_bytes
                for t in all_tensors if t.elements = all_tensors[1].elements
            ])
            THEN list_sum([
                t.size for t in all_tensors if t.elements = all_tensors[1].elements
            ])
    END::BIGINT
);
