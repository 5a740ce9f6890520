-- Predicted duration of every span of host time, and what its end waits for. Replay
-- takes measured durations (`prediction.host_own`), other methods within steps what is
-- expected from spans that are alike. Then come the edits of the scenario: what is set
-- stands for that, is multiplied, and added to; what is removed takes no time, and waits
-- for nothing. What no cause explains is left out, but where it is much of a step (`prediction.unexplained_step`):
-- there it is kept as a wait that was measured. What workers do ahead of a thread
-- (`prediction.prefetch`) is on lanes of their own, and the thread waits for it.
-- One row per variant and span.
-- Key: variant_id, thread_id, position.
CREATE TABLE prediction.host_time (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread, or the lane of a worker.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Duration, but for what it waits for.
    predicted_ns,
    -- GPU work whose end it waits for: what was over last as measured. All that it waits
    -- for is in `graph.host_awaited`.
    awaited_gpu_op_id,
    -- Thread that it waits for.
    awaited_thread_id,
    -- Span of that thread whose end it waits for.
    awaited_position,
    -- [ns] Delay after what it waits for.
    delay_ns,
    -- [ns] Part of the measured duration that no cause explains.
    unexplained_ns,
    -- [ns] Of that what is kept: part of the duration, or of the delay where it is blocked.
    kept_ns,
    -- What the spans that it is expected from are alike in, as in
    -- `prediction.host_expectation`; NULL as measured.
    alike
) AS
WITH
own AS (
    SELECT
        own.*,
        variant.variant_id,
        variant.scenario,
        variant.host_from,
        edit.set_ns,
        edit.factor,
        edit.add_ns,
        coalesce(edit.is_removed, false) AS is_gone,
        NOT is_gone AND no_wait.kind IS NULL AS waits,
        CASE
            WHEN waits AND EXISTS (
                SELECT 1
                FROM prediction.unexplained_step AS step
                WHERE
                    step.trace_id = own.trace_id
                    AND step.start_ns <= span.start_ns
                    AND step.end_ns > span.start_ns
            ) THEN unexplained_ns
            ELSE 0
        END AS kept_ns
    FROM prediction.host_own AS own
    INNER JOIN overhead.timeline AS span USING (thread_id, position)
    INNER JOIN prediction.variant AS variant ON is_simulated
    LEFT JOIN prediction.host_edit AS edit USING (variant_id, thread_id, position)
    LEFT JOIN prediction.removed_wait AS no_wait
        ON
            variant.variant_id = no_wait.variant_id
            AND own.thread_id = no_wait.waiting_id
            AND own.position = no_wait.position
            AND no_wait.kind <> 'stream'
),

timed AS (
    SELECT
        own.variant_id, own.run_id, own.trace_id, own.thread_id, own.position, own.scenario,
        CASE
            WHEN is_gone THEN 0
            ELSE prediction.edited_ns(
                coalesce(expected_ns, own_ns), set_ns, own.factor, own.add_ns
            )
        END + CASE WHEN is_blocked THEN 0 ELSE kept_ns END AS predicted_ns,
        CASE WHEN waits THEN awaited_gpu_op_id END AS awaited_gpu_op_id,
        CASE WHEN waits THEN awaited_thread_id END AS awaited_thread_id,
        CASE WHEN waits THEN awaited_position END AS awaited_position,
        CASE
            WHEN waits
                THEN prediction.edited_delay_ns(return_ns, delayed.factor, delayed.add_ns)
            ELSE 0
        END
        + CASE WHEN is_blocked THEN kept_ns ELSE 0 END AS delay_ns,
        unexplained_ns,
        kept_ns,
        alike
    FROM own
    LEFT JOIN prediction.host_expectation AS expected
        ON
            own.thread_id = expected.thread_id
            AND own.position = expected.position
            AND own.host_from = expected.host_from
            AND own.awaited_thread_id IS NULL
    LEFT JOIN prediction.delay_edit AS delayed
        ON
            own.variant_id = delayed.variant_id
            AND own.thread_id = delayed.waiting_id
            AND own.position = delayed.position
            AND delayed.kind IN ('return', 'thread')
),

-- The part of spans that is done ahead, and of which batch.
ahead AS (
    SELECT
        timed.variant_id,
        span.*,
        round(predicted_ns * ahead_share)::BIGINT AS ahead_ns
    FROM prediction.overlapped_span AS span
    INNER JOIN timed USING (scenario, thread_id, position)
    WHERE getvariable('edits') IS NOT NULL
),

taken AS (
    SELECT
        ahead.*, lane, batch.position AS lane_position, asked_position, host_ns,
        batch.ahead_share AS lead_share, spare_ns,
        sum(ahead_ns) OVER (
            PARTITION BY ahead.variant_id, ahead.edit, ahead.thread_id, ahead.batch
        )::BIGINT AS batch_ns
    FROM ahead
    LEFT JOIN prediction.prefetch AS batch
        ON
            ahead.variant_id = batch.variant_id
            AND ahead.edit = batch.edit
            AND ahead.thread_id = batch.thread_id
            AND ahead.position = batch.first_position
),

-- Each batch; what its worker has done up to its end, less what of that was done as the
-- trace began.
fetched AS (
    SELECT
        *,
        sum(batch_ns) OVER (PARTITION BY variant_id, lane ORDER BY lane_position)
        - greatest(
            (avg(batch_ns) OVER (PARTITION BY variant_id, edit, thread_id) * lead_share)::BIGINT
            + spare_ns,
            0
        ) AS done_ns
    FROM taken
    WHERE lane IS NOT NULL
)

-- The thread takes a batch when that is over, which costs it what is left of the span.
SELECT
    timed.variant_id, timed.run_id, timed.trace_id, thread_id, position,
    predicted_ns - coalesce(ahead_ns, 0) + coalesce(host_ns, 0) AS own_ns,
    awaited_gpu_op_id,
    coalesce(lane, awaited_thread_id),
    coalesce(lane_position, awaited_position),
    CASE WHEN lane IS NULL THEN delay_ns ELSE own_ns END,
    unexplained_ns, kept_ns, alike
FROM timed
LEFT JOIN taken USING (variant_id, thread_id, position)
UNION ALL
SELECT
    variant_id, run_id, trace_id, lane, lane_position - 1, 0, NULL,
    CASE WHEN asked_position IS NOT NULL THEN thread_id END, asked_position, 0, 0, 0, NULL
FROM taken
WHERE lane IS NOT NULL
UNION ALL
SELECT
    variant_id, run_id, trace_id, lane, lane_position,
    -- What was asked for in the trace was not begun before it.
    CASE
        WHEN asked_position IS NOT NULL THEN batch_ns
        ELSE greatest(done_ns, 0) - greatest(done_ns - batch_ns, 0)
    END::BIGINT,
    NULL, NULL, NULL, 0, 0, 0, NULL
FROM fetched;
