-- Which waits the edits of scenarios match and remove: of a host thread for GPU work (also
-- for work that was not recorded), of a thread for another, of a stream for another. For
-- ops, the waits of the calls in them.
-- One row per edit of waits or of ops, and wait that it matches.
-- Key: scenario, edit, kind, waiting_id, position, awaited_gpu_op_id.
CREATE VIEW prediction.edited_wait (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- Kind of wait: `host` (a thread waits for GPU work), `thread` (for another thread),
    -- `rank` (for that of another rank) or `stream` (GPU work waits for another stream's).
    kind,
    -- The waiting thread or GPU work.
    waiting_id,
    -- Position of the wait on the thread; 0 for GPU work.
    position,
    -- What GPU work waits for; NULL for threads.
    awaited_gpu_op_id,
    -- [ns] Time waited, as measured; for GPU work, what launch and stream do not
    -- explain, and this does.
    waited_ns
) AS
SELECT
    scenario,
    edit,
    prediction.wait_target(type),
    thread_id,
    position,
    NULL::BIGINT,
    span_ns
FROM prediction.chosen_span
WHERE target IN ('wait', 'op') AND type LIKE 'wait_%' AND type <> 'wait_data'
UNION ALL
SELECT
    scenario, edit, 'stream', gpu_op_id, 0, chosen.awaited_gpu_op_id,
    CASE
        WHEN chosen.awaited_gpu_op_id = wait.awaited_gpu_op_id THEN greatest(excess_ns, 0)
        ELSE greatest(work.end_ns - (wait.start_ns - excess_ns), 0)
    END
FROM prediction.chosen_wait AS chosen
INNER JOIN graph.stream_wait AS wait USING (gpu_op_id)
INNER JOIN staging.gpu_op AS work ON chosen.awaited_gpu_op_id = work.gpu_op_id
WHERE target = 'wait';
