-- Which waits of threads a variant removes, to find what they cost, or what a program would
-- do without them. The thread continues at once.
-- One row per variant and wait.
-- Key: variant_id, kind, waiting_id, position.
CREATE VIEW prediction.removed_wait (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- `host` (a thread waits for GPU work), `thread` (for another thread) or `rank` (for that
    -- of another rank).
    kind,
    -- The waiting thread.
    waiting_id,
    -- Position of the wait on the thread.
    position
) AS
WITH
removed AS (
    SELECT DISTINCT variant_id, kind, waiting_id, wait.position
    FROM prediction.edited_wait AS wait
    INNER JOIN prediction.scenario_edit AS edit
        ON wait.scenario = edit.scenario AND edit = edit.position
    INNER JOIN prediction.variant AS variant ON wait.scenario = variant.scenario
    WHERE action = 'unsync' AND kind <> 'stream'
)

SELECT variant_id, kind, waiting_id, position
FROM removed
UNION
-- With a wait for another thread go those for it that were over.
SELECT variant_id, kind, waiting_id, ready.position
FROM removed
INNER JOIN prediction.host_own AS seen
    ON waiting_id = seen.thread_id AND removed.position = seen.position
INNER JOIN prediction.host_own AS ready
    ON
        seen.thread_id = ready.thread_id
        AND seen.awaited_thread_id = ready.awaited_thread_id
        AND ready.is_ready
WHERE kind = 'thread';
