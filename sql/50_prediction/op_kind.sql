-- The family of the ops of each name, if several families share a relation.
-- One row per trace and name of an op that launches GPU work and is listed in
-- `prediction.op_family`.
-- Key: trace_id, name.
CREATE TABLE prediction.op_kind (
    -- The trace.
    trace_id,
    -- Name of the op.
    name,
    -- Op of the family: the name without its variant.
    op,
    -- Family.
    family,
    -- The relation that counts them, without `op_`.
    rule,
    -- [FLOP] FLOPs per element, if counted that way.
    element_flops
) AS
SELECT
    trace_id,
    named.name,
    regexp_replace(
        regexp_replace(named.name, '^(\w+::)*_?(native_|cudnn_|miopen_)?', ''),
        '([^_])_$|(backward)_data$', '\1\2'
    ),
    arg_min(op_family.family, ordinal),
    arg_min(op_family.rule, ordinal),
    arg_min(op_family.element_flops, ordinal)::BIGINT
FROM prediction.op_name AS named
INNER JOIN prediction.op_family ON regexp_full_match(bare_name, op_family.pattern)
GROUP BY trace_id, named.name;
