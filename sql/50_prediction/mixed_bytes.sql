-- [B] The tensors that are as large as the first, where one is of another type than the
-- widest: their number does not tell their bytes then. Else NULL.
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
