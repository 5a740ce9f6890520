-- The patterns by which edits select, and the kind of text that each is compared with. Text
-- between slashes is a regular expression that may match anywhere; otherwise `*` matches
-- any text, `?` one character, and the pattern must match the whole text.
-- One row per edit, field with a pattern, and kind of text.
-- Key: scenario, edit, field, text_kind.
CREATE VIEW prediction.edit_pattern (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The field of the edit.
    field,
    -- Kind of text, as in `prediction.known_text`.
    text_kind,
    -- The pattern as given.
    pattern,
    -- Whether it is matched as a regular expression.
    is_expression,
    -- The expression, or the pattern in DuckDB's GLOB syntax; there `?` matches a byte, so
    -- a pattern with one is written as an expression.
    matcher
) AS
WITH
asked AS (
    SELECT
        scenario, position, 'name' AS field, name AS pattern,
        unnest(
            CASE target
                WHEN 'host' THEN ['op', 'call']
                WHEN 'op' THEN ['op']
                WHEN 'gpu' THEN ['gpu_op']
                ELSE ['call', 'gpu_op']
            END
        ) AS text_kind
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'op', op, 'op'
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'annotation', annotation, 'annotation'
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'function', function, unnest(['function', 'function_name'])
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'shape', shape, 'shape'
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'module', module, unnest(['module', 'module_class'])
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'family', family, 'family'
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'process_group', process_group, 'process_group'
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'awaited', awaited, 'gpu_op'
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'awaited_op', awaited_op, 'op'
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'thread', thread, 'thread'
    FROM prediction.scenario_edit
    UNION ALL
    SELECT scenario, position, 'until', until, unnest(['op', 'annotation'])
    FROM prediction.scenario_edit
)

SELECT
    scenario,
    position,
    field,
    text_kind,
    pattern,
    is_given OR contains(pattern, '?'),
    CASE
        WHEN is_given THEN pattern[2:-2]
        WHEN contains(pattern, '?') THEN '(?s)\A'
            || replace(replace(regexp_escape(pattern), '\*', '.*'), '\?', '.') || '\z'
        ELSE replace(replace(pattern, '\', '\\'), '[', '\[')
    END
FROM (SELECT *, length(pattern) > 2 AND pattern LIKE '/%/' AS is_given FROM asked)
WHERE pattern IS NOT NULL;
