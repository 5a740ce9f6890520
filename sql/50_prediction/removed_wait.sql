-- Which waits a variant does without: what they are worth, or what a program would do that
-- has them no more. What had waited goes on.
-- One row per variant and wait.
-- Key: variant_id, kind, waiting_id, position.
CREATE VIEW prediction.removed_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `host` (a thread waits for GPU work), `thread` (for another thread), `rank` (for that
    -- of another rank) or `stream` (GPU work waits for another stream's).
    kind,
    -- The thread, or the GPU work, that waits.
    waiting_id,
    -- Position of the wait on the thread; 0 of GPU work.
    position
) AS
SELECT DISTINCT variant_id, kind, waiting_id, wait.position
FROM prediction.edited_wait AS wait
INNER JOIN prediction.scenario_edit AS edit
    ON wait.scenario = edit.scenario AND edit = edit.position
INNER JOIN prediction.variant AS variant ON wait.scenario = variant.scenario
WHERE action = 'unsync';
