-- Whether a name is that of a backward op: of autograd's engine, or of a function such as
-- `AddmmBackward0`.
CREATE MACRO staging.is_backward_op(
    -- The name of an op.
    name
) AS (
    regexp_matches(name, '^autograd::engine::|^torch::autograd::|Backward\d*($|[^A-Za-z\d])')
);
