-- Which delays the edits of scenarios match: of GPU work after its launch (`launch`), after
-- the previous work on its stream (`stream`) and after work on another stream
-- (`stream_wait`), of a host thread after GPU work that it waits for (`return`) or after
-- another thread (`thread`: none is measured, so it can only be added to).
-- One row per edit of delays, and delay that it matches.
-- Key: scenario, edit, kind, waiting_id, position, awaited_gpu_op_id.
CREATE VIEW prediction.edited_delay (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- `launch`, `stream`, `stream_wait`, `return` or `thread`.
    kind,
    -- The delayed thread or GPU work.
    waiting_id,
    -- Position of the wait on the thread; 0 for GPU work.
    position,
    -- For a delay after work on another stream, that work; otherwise NULL.
    awaited_gpu_op_id,
    -- [ns] The delay, as predicted without edits.
    delay_ns
) AS
WITH
chosen AS (
    SELECT
        scenario, edit, type AS kind, gpu_op_id AS waiting_id, 0 AS position,
        NULL::BIGINT AS awaited_gpu_op_id,
        CASE type WHEN 'launch' THEN launch_delay_ns ELSE stream_delay_ns END AS delay_ns
    FROM prediction.chosen_work
    INNER JOIN prediction.gpu_delay USING (gpu_op_id)
    WHERE target = 'delay' AND type <> 'stream_wait'
    UNION ALL
    SELECT scenario, edit, 'stream_wait', gpu_op_id, 0, awaited_gpu_op_id, delay_ns
    FROM prediction.chosen_wait
    INNER JOIN prediction.gpu_awaited USING (gpu_op_id, awaited_gpu_op_id)
    WHERE target = 'delay'
    UNION ALL
    SELECT scenario, edit, 'return', thread_id, position, NULL, return_ns
    FROM prediction.chosen_span
    INNER JOIN prediction.host_own USING (thread_id, position)
    WHERE target = 'delay' AND type <> 'wait_thread' AND awaited_gpu_op_id IS NOT NULL
    UNION ALL
    SELECT scenario, edit, 'thread', thread_id, position, NULL, 0
    FROM prediction.chosen_span
    INNER JOIN prediction.host_own USING (thread_id, position)
    WHERE target = 'delay' AND awaited_thread_id IS NOT NULL
)

SELECT scenario, edit, kind, waiting_id, position, awaited_gpu_op_id, delay_ns
FROM chosen;
