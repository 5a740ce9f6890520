-- What edits may select by: the names and other texts of the database, of the kinds that
-- current edits need (the variable `edit_fields` has the fields that they use).
-- One row per kind and text.
-- Key: text_kind, text.
CREATE VIEW prediction.known_text (
    -- `op`, `call`, `gpu_op`, `annotation`, `function` (of Python, with its file and line),
    -- `function_name`, `shape` (of an op's arguments), `module` (path), `module_class`,
    -- `family`, `process_group` or `thread` (roles, names and numbers).
    text_kind,
    -- The text.
    text
) AS
SELECT DISTINCT 'op', name
FROM staging.op
WHERE
    NOT is_annotation
    AND list_has_any(
        getvariable('edit_fields')::VARCHAR[], ['name', 'op', 'until', 'awaited_op']
    )
UNION ALL
SELECT DISTINCT 'call', name
FROM staging.call
WHERE list_contains(getvariable('edit_fields')::VARCHAR[], 'name')
UNION ALL
SELECT DISTINCT 'gpu_op', name
FROM staging.gpu_op
WHERE list_has_any(getvariable('edit_fields')::VARCHAR[], ['name', 'awaited'])
UNION ALL
SELECT DISTINCT 'annotation', name
FROM staging.annotation
WHERE list_has_any(getvariable('edit_fields')::VARCHAR[], ['annotation', 'until'])
UNION ALL
SELECT DISTINCT
    unnest(['function', 'function_name']), unnest([name, split_part(name, ' (', 1)])
FROM staging.python_frame
WHERE list_contains(getvariable('edit_fields')::VARCHAR[], 'function')
UNION ALL
SELECT DISTINCT 'shape', input_dims::VARCHAR
FROM staging.op
WHERE
    input_dims IS NOT NULL
    AND NOT is_annotation
    AND list_contains(getvariable('edit_fields')::VARCHAR[], 'shape')
UNION ALL
SELECT DISTINCT 'module', path
FROM staging.module_call
WHERE list_contains(getvariable('edit_fields')::VARCHAR[], 'module')
UNION ALL
SELECT DISTINCT 'module_class', staging.module_class(path)
FROM staging.module_call
WHERE list_contains(getvariable('edit_fields')::VARCHAR[], 'module')
UNION ALL
SELECT DISTINCT 'family', family
FROM prediction.kernel_roofline
WHERE list_contains(getvariable('edit_fields')::VARCHAR[], 'family')
UNION ALL
SELECT DISTINCT 'process_group', process_group
FROM staging.collective
WHERE
    process_group IS NOT NULL
    AND list_contains(getvariable('edit_fields')::VARCHAR[], 'process_group')
UNION ALL
SELECT DISTINCT 'thread', text
FROM (SELECT unnest([role, name, tid::VARCHAR]) AS text FROM staging.thread)
WHERE text IS NOT NULL AND list_contains(getvariable('edit_fields')::VARCHAR[], 'thread');
