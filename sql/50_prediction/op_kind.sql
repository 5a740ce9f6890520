-- The family of the ops of each name.
-- One row per name of an op that launches GPU work and is of a known family.
-- Key: name.
CREATE VIEW prediction.op_kind (
    -- Name of the op.
    name,
    -- Family.
    family,
    -- Rule by which its work is counted.
    rule,
    -- [FLOP] Arithmetic per element, where `op_movement` counts.
    element_flops
) AS
SELECT
    named.name,
    arg_min(op_family.family, ordinal),
    arg_min(op_family.rule, ordinal),
    arg_min(op_family.element_flops, ordinal)::BIGINT
FROM (SELECT DISTINCT name FROM prediction.op_shape) AS named
INNER JOIN prediction.op_family
    ON regexp_full_match(
        regexp_replace(regexp_replace(named.name, '^aten::', ''), '([^_])_$', '\1'),
        op_family.pattern
    )
GROUP BY named.name;
