-- Predicted duration of every piece of host time, and what its end waits for. Replay
-- takes measured durations, other rungs within steps what is expected from pieces that
-- are alike. A wait lasts until its cause is over: its own duration is that of a call
-- which finds nothing to wait for. Then come the edits of the scenario.
-- One row per variant and piece.
-- Key: variant_id, thread_id, position.
CREATE TABLE prediction.host_time (
    -- Rung and scenario, as in `prediction.variant`.
    variant_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Place of the piece on its thread.
    position,
    -- [ns] Duration, but for what it waits for.
    predicted_ns,
    -- GPU work whose end it waits for.
    awaited_kernel_id,
    -- Thread that it waits for.
    awaited_thread_id,
    -- Piece of that thread whose end it waits for.
    awaited_position,
    -- [ns] Delay after what it waits for.
    delay_ns,
    -- [ns] Part of the measured duration that no cause explains.
    unexplained_ns,
    -- What the pieces that it is expected from are alike in, as in
    -- `prediction.host_expectation`; NULL as measured.
    alike
) AS
WITH
-- A thread waits for another's piece: the worker's end, or the boundary that woke it.
thread_cause AS (
    SELECT
        waiting.thread_id,
        waiting.position,
        working.thread_id AS awaited_thread_id,
        working.position AS awaited_position
    FROM graph.thread_wait AS wait
    INNER JOIN overhead.timeline AS waiting
        ON wait.thread_id = waiting.thread_id AND wait.end_ns = waiting.end_ns
    INNER JOIN overhead.timeline AS working
        ON wait.worker_thread_id = working.thread_id AND wait.end_ns = working.end_ns
    UNION ALL
    SELECT woken.thread_id, woken.position, waking.thread_id, waking.position
    FROM graph.thread_wait AS wait
    INNER JOIN overhead.timeline AS woken
        ON wait.worker_thread_id = woken.thread_id AND wait.start_ns = woken.end_ns
    INNER JOIN overhead.timeline AS waking
        ON wait.thread_id = waking.thread_id AND wait.start_ns = waking.end_ns
    WHERE wait.first_node_id IS NOT NULL
),

caused AS (
    SELECT
        piece.*,
        piece.end_ns - piece.start_ns AS measured_ns,
        host_wait.kernel_id AS awaited_kernel_id,
        host_wait.end_ns - host_wait.kernel_end_ns AS return_ns,
        host_wait.is_blocked,
        thread_cause.awaited_thread_id,
        thread_cause.awaited_position,
        replace(piece.type, 'wait_', '') AS target
    FROM overhead.timeline AS piece
    LEFT JOIN graph.host_wait
        ON
            piece.launch_id = host_wait.launch_id
            AND piece.type LIKE 'wait_%'
    LEFT JOIN thread_cause USING (thread_id, position)
),

delayed AS (
    SELECT
        caused.*,
        idle_call.median_ns AS call_ns,
        idle_call.cap_ns AS call_cap_ns,
        afterwards.median_ns AS return_median_ns,
        afterwards.cap_ns AS return_cap_ns
    FROM caused
    LEFT JOIN prediction.delay AS idle_call
        ON
            caused.trace_id = idle_call.trace_id
            AND caused.target = idle_call.kind
            AND idle_call.cause = 'call'
    LEFT JOIN prediction.delay AS afterwards
        ON
            caused.trace_id = afterwards.trace_id
            AND caused.target = afterwards.kind
            AND afterwards.cause = 'return'
),

-- What a piece lasts by itself, as measured.
own AS (
    SELECT
        *,
        CASE
            WHEN awaited_thread_id IS NOT NULL THEN 0
            WHEN type LIKE 'wait_%' AND launch_id IS NOT NULL
                THEN least(
                    measured_ns,
                    CASE
                        WHEN is_blocked THEN coalesce(call_ns, 0)
                        -- Without an instance to learn from: a call takes microseconds.
                        ELSE coalesce(call_cap_ns, 10_000)
                    END
                )
            ELSE measured_ns
        END AS own_ns,
        coalesce(CASE WHEN is_blocked THEN greatest(return_ns - return_cap_ns, 0) END, 0)
        + CASE
            WHEN awaited_thread_id IS NULL AND NOT coalesce(is_blocked, false)
                THEN measured_ns - own_ns
            ELSE 0
        END AS unexplained_ns
    FROM delayed
)

SELECT
    variant.variant_id,
    own.run_id,
    own.trace_id,
    own.thread_id,
    own.position,
    CASE
        WHEN edit.factor IS NULL THEN coalesce(expected_ns, own_ns)
        ELSE greatest(
            round(coalesce(expected_ns, own_ns) * edit.factor)::BIGINT + edit.add_ns, 0
        )
    END AS predicted_ns,
    CASE WHEN no_host_wait.kind IS NULL THEN awaited_kernel_id END,
    CASE WHEN no_thread_wait.kind IS NULL THEN awaited_thread_id END,
    CASE WHEN no_thread_wait.kind IS NULL THEN awaited_position END,
    CASE
        WHEN awaited_kernel_id IS NOT NULL AND no_host_wait.kind IS NULL
            THEN coalesce(return_median_ns, 0)
        ELSE 0
    END AS delay_ns,
    unexplained_ns,
    alike
FROM own
INNER JOIN prediction.variant AS variant ON is_simulated
LEFT JOIN prediction.host_expectation AS expected
    ON
        own.thread_id = expected.thread_id
        AND own.position = expected.position
        AND variant.host_from = expected.host_from
        AND own.awaited_thread_id IS NULL
LEFT JOIN prediction.host_edit AS edit
    ON
        own.thread_id = edit.thread_id
        AND own.position = edit.position
        AND variant.variant_id = edit.variant_id
LEFT JOIN prediction.removed_wait AS no_host_wait
    ON variant.variant_id = no_host_wait.variant_id AND no_host_wait.kind = 'host'
LEFT JOIN prediction.removed_wait AS no_thread_wait
    ON variant.variant_id = no_thread_wait.variant_id AND no_thread_wait.kind = 'thread';
