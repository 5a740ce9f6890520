-- Which waits a variant does without: a question to the graph, what they are worth.
-- One row per variant and kind of wait.
-- Key: variant_id, kind.
CREATE VIEW prediction.removed_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `host` (a thread waits for GPU work), `thread` (for another thread) or `stream` (GPU
    -- work waits for another stream's).
    kind
) AS
SELECT DISTINCT variant_id, known.kind
FROM prediction.scenario_edit AS edit
INNER JOIN prediction.variant USING (scenario)
INNER JOIN (VALUES ('host'), ('thread'), ('stream')) AS known (kind)
    ON coalesce(edit.type, known.kind) = known.kind
WHERE target = 'wait';
