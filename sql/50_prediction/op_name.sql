-- Names of ops, and the form that patterns of families are compared with.
-- One row per trace and name of an op that launches GPU work of known shape.
-- Key: trace_id, name.
CREATE TABLE prediction.op_name (
    -- The trace.
    trace_id,
    -- Name of the op.
    name,
    -- The name without `aten::` and a final underscore.
    bare_name
) AS
SELECT DISTINCT
    trace_id,
    name,
    regexp_replace(regexp_replace(name, '^aten::', ''), '([^_])_$', '\1')
FROM prediction.op_shape;
