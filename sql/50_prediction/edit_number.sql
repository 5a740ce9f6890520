-- The numbers by which edits select, as ranges.
-- One row per edit, field with numbers, and range among them.
-- Key: scenario, edit, field, ordinal.
CREATE VIEW prediction.edit_number (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The field: `instance`, `step`, `rank`, `stream`, `device`, `awaited_stream` or
    -- `awaited_device`.
    field,
    -- Ordinal of the range in the field.
    ordinal,
    -- The first number.
    low,
    -- The last number.
    high
) AS
WITH
part AS (
    SELECT
        scenario, position, field, unnest(string_split(text, ',')) AS text,
        unnest(range(len(string_split(text, ',')))) AS ordinal
    FROM (
        UNPIVOT (
            SELECT
                scenario, position, instance, step, rank, stream, device, awaited_stream,
                awaited_device
            FROM prediction.scenario_edit
        )
        ON instance, step, rank, stream, device, awaited_stream, awaited_device
        INTO NAME field VALUE text
    )
)

SELECT
    scenario,
    position,
    field,
    ordinal,
    split_part(text, '..', 1)::BIGINT,
    split_part(text, '..', CASE WHEN text LIKE '%..%' THEN 2 ELSE 1 END)::BIGINT
FROM part;
