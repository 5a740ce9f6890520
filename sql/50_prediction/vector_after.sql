-- The first vector of 32-bit integers among tensors (`prediction.op_shape`) after an argument:
-- where sequences, or groups of rows, start.
CREATE MACRO prediction.vector_after(
    -- Tensors among an op's arguments.
    tensors,
    -- Number of the argument, from 0.
    argument
) AS (
    list_filter(
        tensors,
        lambda t: t.argument > argument AND len(t.dims) = 1 AND t.element.name = 'int32'
    )[1]
);
