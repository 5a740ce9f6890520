-- Names of ops, and what patterns of families are compared with.
-- One row per name of an op that launches GPU work of known shape.
-- Key: name.
CREATE VIEW prediction.op_name (
    -- Name of the op.
    name,
    -- The name without `aten::` and a final underscore.
    bare_name
) AS
SELECT
    name,
    regexp_replace(regexp_replace(listed_name, '^aten::', ''), '([^_])_$', '\1')
FROM (
    -- By way of an aggregate: what is asked of bare names is asked of each name once, and
    -- not of each op.
    SELECT name, any_value(name) AS listed_name
    FROM prediction.op_shape
    GROUP BY name
);
