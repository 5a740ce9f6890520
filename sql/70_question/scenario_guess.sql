-- Which of the waits affected by a scenario are inferred? Waits that the trace does not
-- record, but that follow from order and times (`recorded` is false in `graph.edge`), without
-- those for GPU work that was over before: `question.scenario_assumption` has these if they
-- matter.
-- One row per scenario, edit and kind of wait; empty unless scenarios are requested
-- (`tracedb whatif`).
-- Key: scenario, edit, kind.
CREATE VIEW question.scenario_guess (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- `host` (a call waits for GPU work), `stream` (GPU work waits for another stream's) or
    -- `thread` (a thread waits for another).
    kind,
    -- Inferred waits next to the edit: it matches the waiter, or what is waited for.
    wait_count
) AS
WITH
work AS (
    SELECT DISTINCT scenario, edit, gpu_op_id
    FROM prediction.chosen_work
),

span AS (
    SELECT DISTINCT scenario, edit, thread_id, position, call_id, end_ns, type
    FROM prediction.chosen_span
    INNER JOIN overhead.timeline USING (thread_id, position, type)
),

guess AS (
    SELECT scenario, edit, 'host' AS kind, call_id AS waiting_id
    FROM work
    INNER JOIN graph.host_awaited USING (gpu_op_id)
    WHERE
        NOT recorded
        AND target IN ('stream', 'event', 'device')
        AND gpu_op_end_ns > start_ns
    UNION
    SELECT scenario, edit, 'host', call_id
    FROM span
    INNER JOIN graph.host_awaited USING (call_id)
    WHERE
        NOT recorded
        AND span.type LIKE 'wait_%'
        AND target IN ('stream', 'event', 'device')
        AND gpu_op_end_ns > start_ns
    UNION
    SELECT scenario, edit, 'stream', wait.gpu_op_id
    FROM work
    INNER JOIN graph.stream_wait AS wait
        ON work.gpu_op_id IN (wait.gpu_op_id, wait.awaited_gpu_op_id)
    WHERE NOT recorded
    UNION
    SELECT scenario, edit, 'thread', wait.start_ns
    FROM span
    INNER JOIN graph.thread_wait AS wait
        ON
            wait.end_ns = span.end_ns
            AND span.thread_id IN (wait.thread_id, wait.worker_thread_id)
)

SELECT scenario, edit, kind, count(*)
FROM guess
GROUP BY scenario, edit, kind
ORDER BY scenario, edit, kind;
