-- At which waits host threads still wait in scenarios that fuse work, or capture it as a
-- graph: all except those that they remove, and those of ops that they remove.
-- One row per scenario and wait.
-- Key: scenario, thread_id, position.
CREATE VIEW prediction.standing_wait (
    -- The scenario.
    scenario,
    -- The thread.
    thread_id,
    -- Position of the wait on the thread.
    position,
    -- [ns] Start of the wait, from the start of the trace.
    start_ns
) AS
WITH
removed_wait AS (
    SELECT wait.scenario, waiting_id AS thread_id, wait.position
    FROM prediction.edited_wait AS wait
    INNER JOIN prediction.scenario_edit AS edit
        ON wait.scenario = edit.scenario AND edit = edit.position
    WHERE kind <> 'stream' AND action IN ('unsync', 'remove')
)

SELECT joining.scenario, wait.thread_id, wait.position, wait.start_ns
FROM (
    SELECT DISTINCT scenario FROM prediction.scenario_edit WHERE action IN ('fuse', 'graph')
) AS joining
INNER JOIN overhead.timeline AS wait ON wait.type LIKE 'wait_%'
ANTI JOIN removed_wait
    ON
        joining.scenario = removed_wait.scenario
        AND wait.thread_id = removed_wait.thread_id
        AND wait.position = removed_wait.position;
