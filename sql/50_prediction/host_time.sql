-- Predicted duration of every span of host time, and what its end waits for. Replay uses
-- measured durations (`prediction.host_own`); within steps, other methods use the
-- expectation from similar spans. Then the edits of the scenario apply, also to the
-- thread's own time between another thread's work and what needs it; removed spans take
-- no time, and wait for nothing. Time without a cause is left out, unless it is a large
-- part of a step (`prediction.unexplained_step`): then it is kept like a measured wait.
-- Work that workers do ahead of a thread (`prediction.prefetch`) is on separate lanes,
-- and the thread waits for it.
-- One row per variant and span.
-- Key: variant_id, thread_id, position.
CREATE TABLE prediction.host_time (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread, or the lane of a worker.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Duration, without what it waits for.
    predicted_ns,
    -- GPU work whose end it waits for: the last of `graph.host_awaited`, as measured.
    awaited_gpu_op_id,
    -- The thread it waits for.
    awaited_thread_id,
    -- Span of the other thread whose end it waits for.
    awaited_position,
    -- [ns] Delay after what it waits for.
    delay_ns,
    -- [ns] Part of the measured duration without a cause.
    unexplained_ns,
    -- [ns] The kept part of that: of the duration, or of the delay if blocked.
    kept_ns,
    -- Similarity of what it is expected from (`prediction.host_expectation`), NULL if measured.
    alike
) AS
WITH
-- Spans whose time without a cause is kept.
kept AS (
    SELECT DISTINCT thread_id, position
    FROM prediction.unexplained_step AS step
    INNER JOIN overhead.timeline AS span
        ON
            step.trace_id = span.trace_id
            AND step.start_ns <= span.start_ns
            AND step.end_ns > span.start_ns
),

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
        CASE WHEN waits AND kept.thread_id IS NOT NULL THEN unexplained_ns ELSE 0 END AS kept_ns
    FROM prediction.host_own AS own
    INNER JOIN prediction.variant AS variant ON is_simulated
    LEFT JOIN kept USING (thread_id, position)
    LEFT JOIN prediction.host_edit AS edit USING (variant_id, thread_id, position)
    LEFT JOIN prediction.removed_wait AS no_wait
        ON
            variant.variant_id = no_wait.variant_id
            AND own.thread_id = no_wait.waiting_id
            AND own.position = no_wait.position
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
        CASE WHEN waits THEN own.awaited_gpu_op_id END AS awaited_gpu_op_id,
        CASE WHEN waits THEN awaited_thread_id END AS awaited_thread_id,
        CASE WHEN waits THEN awaited_position END AS awaited_position,
        CASE WHEN waits THEN prediction.edited_delay_ns(
            prediction.edited_ns(
                return_ns, set_ns, CASE WHEN is_ready THEN own.factor END, own.add_ns
            ),
            delayed.factor,
            delayed.add_ns
        ) ELSE 0 END
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
            AND (own.awaited_thread_id IS NULL OR is_ready)
    LEFT JOIN prediction.delay_edit AS delayed
        ON
            own.variant_id = delayed.variant_id
            AND own.thread_id = delayed.waiting_id
            AND own.position = delayed.position
            AND delayed.kind IN ('return', 'thread')
),

-- The part of spans that is done ahead, and its batch.
ahead AS (
    SELECT
        timed.variant_id, span.*,
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

-- Each batch: the work of its worker up to its end, minus the part that was done before the
-- trace started.
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

-- The thread takes a batch when that is done; the cost is what is left of the span.
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
    -- What was requested during the trace did not start before it.
    CASE
        WHEN asked_position IS NOT NULL THEN batch_ns
        ELSE greatest(done_ns, 0) - greatest(done_ns - batch_ns, 0)
    END::BIGINT,
    NULL, NULL, NULL, 0, 0, 0, NULL
FROM fetched;
