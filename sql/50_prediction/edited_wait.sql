-- Which waits the edits of scenarios match, and take out: of a host thread for GPU work
-- (also for work that was not recorded), of a thread for another, of a stream for another.
-- One row per edit of waits, and wait that it matches.
-- Key: scenario, edit, kind, waiting_id, position.
CREATE VIEW prediction.edited_wait (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- Kind of wait, as in `prediction.removed_wait`.
    kind,
    -- The thread, or the GPU work, that waits.
    waiting_id,
    -- Position of the wait on the thread; 0 of GPU work.
    position,
    -- [ns] Time waited, as measured; of GPU work what launch and stream do not explain.
    waited_ns
) AS
WITH
wait AS (
    SELECT
        CASE type WHEN 'wait_thread' THEN 'thread' ELSE 'host' END AS kind,
        thread_id AS waiting_id,
        position,
        end_ns - start_ns AS waited_ns
    FROM overhead.timeline
    WHERE type LIKE 'wait_%' AND type <> 'wait_data'
    UNION ALL
    SELECT 'stream', gpu_op_id, 0, greatest(excess_ns, 0)
    FROM graph.stream_wait
)

SELECT scenario, edit.position, kind, waiting_id, wait.position, waited_ns
FROM wait
INNER JOIN prediction.scenario_edit AS edit
    ON target = 'wait' AND coalesce(edit.type, kind) = kind;
