-- Predicted duration of every GPU op, and the delays after what it waits for. Durations are
-- as measured or, in full, those of the kernel models; work without a model and collectives
-- stay as measured. Then the edits of the scenario apply: a set value replaces the time,
-- factors multiply it, additions come last. The part of a start without a cause is left
-- out, unless it is a large part of a step (`prediction.unexplained_step`): then it is
-- kept, as part of each delay.
-- One row per variant and GPU op in it: removed work is excluded, inserted work
-- (`prediction.inserted_work`) is included.
-- Key: variant_id, gpu_op_id.
CREATE TABLE prediction.gpu_time (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- [ns] Duration; for a collective of several ranks in the run, from when all have
    -- started.
    predicted_ns,
    -- [ns] From the start of its launch until it is submitted.
    submit_ns,
    -- [ns] Delay after the start of its launch, including that.
    launch_delay_ns,
    -- [ns] Delay after the end of the previous work on its stream.
    stream_delay_ns,
    -- GPU work on another stream whose end it waits for, as measured, or without that wait
    -- the last of the others; NULL if it waits for none. Everything that it waits for is in
    -- `prediction.variant_wait`.
    awaited_gpu_op_id,
    -- [ns] Delay after that.
    wait_delay_ns,
    -- [ns] Part of the measured start without a cause.
    unexplained_ns,
    -- [ns] The part of that which is kept.
    kept_ns
) AS
WITH
kept AS (
    SELECT DISTINCT delay.gpu_op_id, unexplained_ns AS kept_ns
    FROM prediction.gpu_delay AS delay
    INNER JOIN staging.gpu_op AS work ON delay.gpu_op_id = work.gpu_op_id
    INNER JOIN prediction.unexplained_step AS step
        ON
            work.trace_id = step.trace_id
            AND step.start_ns < work.start_ns
            AND step.end_ns > work.start_ns - unexplained_ns
    WHERE unexplained_ns > 0
),

timed AS (
    SELECT
        variant_id,
        coalesce(captured.graph_call_id, position.call_id) AS call_id,
        delay.* REPLACE (
            coalesce(captured.submit_ns, delay.submit_ns) AS submit_ns,
            coalesce(captured.launch_delay_ns, delay.launch_delay_ns) AS launch_delay_ns,
            CASE WHEN follows THEN gap_ns ELSE delay.stream_delay_ns END AS stream_delay_ns
        ),
        -- A graph's launch is not nested: it submits its work when it returns.
        CASE WHEN nested.call_id IS NOT NULL THEN captured.host_ns END AS graph_ns,
        coalesce(kept.kept_ns, 0) AS kept_ns,
        work.kind,
        position.previous_gpu_op_id IS NULL AND captured.gpu_op_id IS NULL AS is_first,
        CASE
            WHEN models_kernels AND NOT work.is_collective
                THEN coalesce(model.predicted_ns, work.end_ns - work.start_ns)
            ELSE coalesce(absent_waiting_ns + moving_ns, work.end_ns - work.start_ns)
        END AS predicted_ns
    FROM prediction.gpu_delay AS delay
    INNER JOIN staging.gpu_op AS work ON delay.gpu_op_id = work.gpu_op_id
    INNER JOIN graph.stream_position AS position ON delay.gpu_op_id = position.gpu_op_id
    LEFT JOIN kept ON delay.gpu_op_id = kept.gpu_op_id
    LEFT JOIN graph.collective AS collective ON delay.gpu_op_id = collective.node_id
    LEFT JOIN prediction.kernel_time AS model ON delay.gpu_op_id = model.gpu_op_id
    INNER JOIN prediction.variant AS variant ON is_simulated
    LEFT JOIN prediction.captured_work AS captured
        ON variant.scenario = captured.scenario AND delay.gpu_op_id = captured.gpu_op_id
    LEFT JOIN graph.nested_launch AS nested ON captured.graph_call_id = nested.call_id
),

-- The last of what work still waits for on other streams, if some of that is removed.
held AS (
    SELECT
        variant_id, removed.gpu_op_id, arg_max(kept.gpu_op_id, kept.end_ns) AS awaited_gpu_op_id
    FROM prediction.removed_stream_wait AS removed
    INNER JOIN prediction.variant USING (scenario)
    LEFT JOIN prediction.variant_wait AS wait USING (variant_id, gpu_op_id)
    LEFT JOIN staging.gpu_op AS kept ON wait.awaited_gpu_op_id = kept.gpu_op_id
    GROUP BY variant_id, removed.gpu_op_id
),

-- When launches that take another time than measured submit their work.
changed AS (
    SELECT
        variant_id,
        call_id,
        greatest(
            any_value(submit_ns)
            + sum(
                prediction.submitted_later_ns(span_ns, predicted_ns, submit_share)
            )::BIGINT,
            0
        ) AS submit_ns,
        sum(predicted_ns)::BIGINT AS whole_ns
    FROM prediction.launch_span
    INNER JOIN prediction.host_time USING (thread_id, position)
    WHERE predicted_ns <> span_ns
    GROUP BY variant_id, call_id
)

SELECT
    timed.variant_id,
    run_id,
    timed.trace_id,
    timed.gpu_op_id,
    prediction.edited_ns(predicted_ns, set_ns, edit.factor, edit.add_ns),
    CASE
        WHEN graph_ns IS NOT NULL THEN coalesce(whole_ns, graph_ns)
        ELSE coalesce(changed.submit_ns, timed.submit_ns)
    END AS submitted_ns,
    prediction.edited_delay_ns(launch_delay_ns, launch.factor, launch.add_ns)
    + submitted_ns + kept_ns,
    -- Work that was first on its stream follows something only if edits put it elsewhere.
    CASE
        WHEN is_first THEN coalesce(added.delay_ns, stream_delay_ns)
        ELSE prediction.edited_delay_ns(stream_delay_ns, following.factor, following.add_ns)
    END + kept_ns,
    CASE
        WHEN held.gpu_op_id IS NULL THEN timed.awaited_gpu_op_id ELSE held.awaited_gpu_op_id
    END,
    prediction.edited_delay_ns(wait_delay_ns, waiting.factor, waiting.add_ns) + kept_ns,
    unexplained_ns,
    kept_ns
FROM timed
LEFT JOIN changed
    ON timed.variant_id = changed.variant_id AND timed.call_id = changed.call_id
LEFT JOIN prediction.gpu_edit AS edit
    ON timed.variant_id = edit.variant_id AND timed.gpu_op_id = edit.gpu_op_id
LEFT JOIN held
    ON timed.variant_id = held.variant_id AND timed.gpu_op_id = held.gpu_op_id
LEFT JOIN prediction.delay_edit AS launch
    ON
        timed.variant_id = launch.variant_id
        AND timed.gpu_op_id = launch.waiting_id
        AND launch.kind = 'launch'
LEFT JOIN prediction.delay_edit AS following
    ON
        timed.variant_id = following.variant_id
        AND timed.gpu_op_id = following.waiting_id
        AND following.kind = 'stream'
LEFT JOIN prediction.added_delay AS added
    ON
        is_first
        AND timed.variant_id = added.variant_id
        AND timed.trace_id = added.trace_id
        AND timed.kind = added.kind
        AND added.cause = 'stream'
LEFT JOIN prediction.delay_edit AS waiting
    ON
        timed.variant_id = waiting.variant_id
        AND timed.gpu_op_id = waiting.waiting_id
        AND coalesce(held.awaited_gpu_op_id, timed.awaited_gpu_op_id) = waiting.awaited_gpu_op_id
        AND waiting.kind = 'stream_wait'
WHERE is_removed IS NOT TRUE
UNION ALL
SELECT
    variant_id, run_id, trace_id, gpu_op_id, predicted_ns, submit_ns, launch_delay_ns,
    stream_delay_ns, NULL, 0, 0, 0
FROM prediction.inserted_work;
