-- The texts in the database that the patterns of edits match. A text that equals the
-- pattern is matched alone: a name copied from an answer selects only that name, whatever
-- stars it contains. Classes of modules are matched only so.
-- One row per edit, field with a pattern, and text that it matches.
-- Key: scenario, edit, field, text_kind, text.
CREATE VIEW prediction.edit_text (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The field of the edit.
    field,
    -- Kind of text, as in `prediction.known_text`.
    text_kind,
    -- The text.
    text
) AS
WITH
-- Scenarios may share their patterns by the hundred.
matched AS (
    SELECT text_kind, pattern, text
    FROM (SELECT DISTINCT text_kind, pattern, is_expression, matcher FROM prediction.edit_pattern)
    INNER JOIN prediction.known_text USING (text_kind)
    WHERE
        text = pattern
        OR CASE
            WHEN text_kind = 'module_class' THEN false
            WHEN is_expression THEN regexp_matches(text, matcher)
            ELSE text GLOB matcher
        END
)

SELECT scenario, edit, field, text_kind, text
FROM prediction.edit_pattern
INNER JOIN matched USING (text_kind, pattern)
-- Names in edits of host time are those of ops or of calls.
QUALIFY text = pattern OR NOT bool_or(text = pattern) OVER (PARTITION BY scenario, edit, field);
