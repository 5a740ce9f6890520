-- The enclosing modules of each module, and itself, by their paths.
-- One row per trace, module and enclosing module.
-- Key: trace_id, module, around.
CREATE VIEW graph.module_within (
    -- The trace.
    trace_id,
    -- The module, with its enclosing modules.
    module,
    -- One of these, or itself, also with its enclosing modules.
    around
) AS
WITH RECURSIVE
inner_module AS (
    SELECT DISTINCT inner_call.trace_id, inner_call.path, outer_call.path AS parent
    FROM staging.module_call AS inner_call
    LEFT JOIN staging.module_call AS outer_call
        ON inner_call.parent_module_call_id = outer_call.module_call_id
),

walk AS (
    SELECT trace_id, path AS module, path AS around
    FROM inner_module
    UNION ALL
    SELECT walk.trace_id, walk.module, inner_module.parent
    FROM walk
    INNER JOIN inner_module
        ON walk.trace_id = inner_module.trace_id AND walk.around = inner_module.path
    WHERE inner_module.parent IS NOT NULL
)

SELECT trace_id, module, around
FROM walk;
