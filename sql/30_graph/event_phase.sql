-- The phase of a training step for each top-level op, and each launch or wait outside ops.
-- Batches are fetched in the ranges of `staging.data_loading`;
-- autograd runs in those of `graph.backward_range`, whatever the thread; optimizers mark
-- their ranges (`Optimizer.step#SGD.step`), also within a backward pass. If an optimizer
-- calls a closure that runs a backward pass, as Lightning does, its own work begins after
-- that; if it calls it several times, as LBFGS does, also between a pass and the next op
-- that autograd records. What lies between a backward pass and its optimizer works on
-- gradients, such as their clipping; what runs a model without recording it for autograd is
-- inference (`graph.inference_op`), such as validation. What else comes before a backward
-- pass of its step is forward, but not before its first batch is fetched, unless gradients
-- of earlier ops are computed: a step may begin with what saves a checkpoint, for example.
-- After the last pass of a step the rest is `other`; without any pass in it, the rest is
-- forward.
-- One row per top-level op, or launch or wait outside of ops.
-- Key: node_id.
CREATE VIEW graph.event_phase (
    -- The op or call.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- `data_loading`, `inference`, `forward`, `backward`, `gradients`, `optimizer` or `other`.
    phase,
    -- [ns] End of the previous event on the thread, or of the batch that was fetched since;
    -- NULL if it is the first.
    previous_end_ns,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
pass AS (
    SELECT trace_id, start_ns, end_ns FROM graph.backward_range WHERE NOT is_named
),

-- An optimizer's own work begins after the last pass of its closure.
optimizer AS (
    SELECT
        annotation.trace_id,
        thread_id,
        name LIKE 'Optimizer.zero_grad%' AS is_zero_grad,
        annotation.start_ns,
        annotation.end_ns,
        CASE WHEN pass.start_ns >= annotation.start_ns THEN pass.end_ns ELSE annotation.start_ns END
        AS own_start_ns
    FROM (FROM staging.annotation WHERE name LIKE 'Optimizer.%') AS annotation
    ASOF LEFT JOIN pass
        ON annotation.trace_id = pass.trace_id AND annotation.end_ns > pass.start_ns
),

updating AS (
    SELECT
        thread_id,
        is_zero_grad,
        start_ns,
        max(own_start_ns) OVER so_far AS own_start_ns,
        max(end_ns) OVER so_far AS end_ns
    FROM optimizer
    WINDOW so_far AS (
        PARTITION BY thread_id, is_zero_grad ORDER BY start_ns, end_ns
        ROWS UNBOUNDED PRECEDING
    )
),

-- Ops that autograd records, by their top-level op.
recorded AS (
    SELECT DISTINCT top.trace_id, top.start_ns
    FROM staging.op AS op
    INNER JOIN staging.op AS top ON op.top_op_id = top.op_id
    WHERE op.sequence_number >= 0
),

update AS (
    SELECT trace_id, own_start_ns AS start_ns, end_ns FROM optimizer WHERE NOT is_zero_grad
),

event AS (
    SELECT
        event.*,
        coalesce(loading.end_ns > event.start_ns, false) OR role = 'data_loading' AS is_loading,
        CASE WHEN loading.end_ns <= event.start_ns THEN loading.end_ns END AS loaded_ns,
        coalesce(pass.end_ns > event.start_ns, false) AS is_backward,
        coalesce(named.end_ns > event.start_ns, false) AS is_named_backward,
        coalesce(zeroing.end_ns > event.start_ns, false) AS is_zeroing,
        CASE WHEN updating.end_ns > event.start_ns
            THEN event.start_ns >= updating.own_start_ns
        END AS is_updating,
        is_updating AND updating.start_ns >= pass.start_ns AS is_within_pass,
        pass.start_ns >= updating.start_ns AND recorded.start_ns < pass.end_ns AS is_between,
        -- Within the step, or in a trace without steps.
        CASE WHEN pass.start_ns >= coalesce(first_ns, pass.start_ns) THEN pass.end_ns END
        AS previous_pass_ns,
        CASE WHEN next_pass.start_ns < coalesce(last_ns, next_pass.start_ns + 1)
            THEN next_pass.start_ns
        END AS next_pass_ns,
        next_update.start_ns < coalesce(least(next_pass_ns, last_ns), next_update.start_ns + 1)
        AND previous_pass_ns > coalesce(previous_update.end_ns, previous_pass_ns - 1)
        AS is_before_update,
        inference.node_id IS NOT NULL AS is_inference,
        greatest(first_ns, previous_pass_ns, previous_update.end_ns) AS begun_ns,
        next_loading.start_ns < next_forward.start_ns
        AND coalesce(loading.start_ns < begun_ns, loading.start_ns IS NULL)
        AND coalesce(previous_forward.start_ns < begun_ns, previous_forward.start_ns IS NULL)
        AS is_before_batch
    FROM (
        SELECT
            event.*,
            role,
            CASE WHEN event.start_ns < step.end_ns THEN step.start_ns END AS first_ns,
            CASE WHEN event.start_ns < step.end_ns THEN step.end_ns END AS last_ns
        FROM graph.top_level_event AS event
        INNER JOIN staging.thread USING (thread_id)
        ASOF LEFT JOIN staging.step AS step
            ON event.trace_id = step.trace_id AND event.start_ns >= step.start_ns
    ) AS event
    ASOF LEFT JOIN staging.loading_range AS loading
        ON event.thread_id = loading.thread_id AND event.start_ns >= loading.start_ns
    ASOF LEFT JOIN staging.loading_range AS next_loading
        ON event.thread_id = next_loading.thread_id AND event.start_ns < next_loading.start_ns
    ASOF LEFT JOIN graph.differentiated_op AS next_forward
        ON
            event.thread_id = next_forward.thread_id
            AND event.start_ns <= next_forward.start_ns
    ASOF LEFT JOIN graph.differentiated_op AS previous_forward
        ON
            event.thread_id = previous_forward.thread_id
            AND event.start_ns >= previous_forward.start_ns
    ASOF LEFT JOIN pass
        ON event.trace_id = pass.trace_id AND event.start_ns >= pass.start_ns
    ASOF LEFT JOIN (FROM graph.backward_range WHERE is_named) AS named
        ON event.trace_id = named.trace_id AND event.start_ns >= named.start_ns
    ASOF LEFT JOIN (FROM updating WHERE is_zero_grad) AS zeroing
        ON event.thread_id = zeroing.thread_id AND event.start_ns >= zeroing.start_ns
    ASOF LEFT JOIN (FROM updating WHERE NOT is_zero_grad) AS updating
        ON event.thread_id = updating.thread_id AND event.start_ns >= updating.start_ns
    ASOF LEFT JOIN recorded
        ON event.trace_id = recorded.trace_id AND event.start_ns >= recorded.start_ns
    ASOF LEFT JOIN pass AS next_pass
        ON event.trace_id = next_pass.trace_id AND event.start_ns < next_pass.start_ns
    ASOF LEFT JOIN update AS next_update
        ON event.trace_id = next_update.trace_id AND event.start_ns < next_update.start_ns
    ASOF LEFT JOIN update AS previous_update
        ON
            event.trace_id = previous_update.trace_id
            AND event.start_ns >= previous_update.end_ns
    LEFT JOIN graph.inference_op AS inference ON event.node_id = inference.node_id
)

SELECT
    node_id,
    run_id,
    trace_id,
    thread_id,
    CASE
        WHEN is_loading THEN 'data_loading'
        WHEN is_within_pass THEN 'optimizer'
        WHEN is_backward THEN 'backward'
        WHEN is_zeroing OR is_updating THEN 'optimizer'
        WHEN is_named_backward THEN 'backward'
        WHEN NOT is_updating THEN CASE WHEN is_between THEN 'optimizer' ELSE 'forward' END
        WHEN is_before_update THEN 'gradients'
        WHEN is_inference THEN 'inference'
        WHEN next_pass_ns IS NULL AND previous_pass_ns IS NOT NULL THEN 'other'
        WHEN next_pass_ns IS NOT NULL AND is_before_batch THEN 'other'
        ELSE 'forward'
    END,
    least(greatest(previous_end_ns, loaded_ns), start_ns),
    start_ns,
    end_ns
FROM event;
