-- The tensors of the first argument that has any: one, or those of a list.
CREATE MACRO prediction.first_list(
    -- Tensors, as `prediction.op_shape` has them.
    all_tensors
) AS (
    [t for t in all_tensors if t.argument = all_tensors[1].argument]
);
