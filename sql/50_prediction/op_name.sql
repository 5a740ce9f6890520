-- Names of ops, and what patterns of families are compared with.
-- One row per name of an op that launches GPU work of known shape.
-- Key: name.
CREATE VIEW prediction.op_name (
    -- Name of the op.
    name,
    -- The name without `aten::` and a final underscore.
    bare_name
) AS
SELECT DISTINCT
    name,
    regexp_replace(regexp_replace(name, '^aten::', ''), '([^_])_$', '\1')
FROM prediction.op_shape;
