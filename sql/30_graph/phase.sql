-- The phase of a training step for each top-level op, and each launch or wait outside ops,
-- including the gap before it. Optimizers mark their ranges (`Optimizer.step#SGD.step`);
-- backward ops are on the thread of autograd, have its names, or the number of the forward
-- op's thread; batches are fetched in the ranges of `staging.data_loading`. Of the rest,
-- everything that starts before the last backward op of its step is forward, and so is
-- everything in a step without one.
-- One row per top-level op, or launch or wait outside of ops.
-- Key: node_id.
CREATE VIEW graph.phase (
    -- The op or call.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- `forward`, `backward`, `optimizer`, `data_loading` or `other`.
    phase,
    -- [ns] End of the previous event on the thread; its own start if it is the first.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
range AS (
    SELECT thread_id, start_ns, end_ns, 'optimizer' AS kind
    FROM staging.annotation
    WHERE name LIKE 'Optimizer.%'
    UNION ALL
    SELECT thread_id, start_ns, end_ns, 'data_loading'
    FROM staging.data_loading
),

-- Ranges may nest: after an inner one, the outer one continues.
open AS (
    SELECT
        kind,
        thread_id,
        start_ns,
        max(end_ns) OVER (
            PARTITION BY kind, thread_id ORDER BY start_ns, end_ns
            ROWS UNBOUNDED PRECEDING
        ) AS end_ns
    FROM range
),

event AS (
    SELECT
        event.*,
        coalesce(optimizer.end_ns > event.start_ns, false) AS is_optimizer,
        coalesce(loading.end_ns > event.start_ns, false) OR role = 'data_loading' AS is_loading,
        role = 'autograd'
        OR coalesce(op.forward_thread > 0, false)
        OR coalesce(
            regexp_matches(op.name, '^autograd::engine::|^torch::autograd::|Backward'), false
        ) AS is_backward,
        CASE WHEN event.start_ns < step.end_ns THEN step.step_id END AS step_id
    FROM graph.top_level_event AS event
    INNER JOIN staging.thread USING (thread_id)
    LEFT JOIN staging.op AS op ON node_id = op_id
    ASOF LEFT JOIN (FROM open WHERE kind = 'optimizer') AS optimizer
        ON event.thread_id = optimizer.thread_id AND event.start_ns >= optimizer.start_ns
    ASOF LEFT JOIN (FROM open WHERE kind = 'data_loading') AS loading
        ON event.thread_id = loading.thread_id AND event.start_ns >= loading.start_ns
    ASOF LEFT JOIN staging.step AS step
        ON event.trace_id = step.trace_id AND event.start_ns >= step.start_ns
)

SELECT
    node_id,
    run_id,
    trace_id,
    thread_id,
    CASE
        WHEN is_optimizer THEN 'optimizer'
        WHEN is_loading THEN 'data_loading'
        WHEN is_backward THEN 'backward'
        WHEN coalesce(
            start_ns < max(start_ns) FILTER (is_backward)
                OVER (PARTITION BY trace_id, step_id),
            true
        ) THEN 'forward'
        ELSE 'other'
    END,
    least(coalesce(previous_end_ns, start_ns), start_ns),
    end_ns
FROM event;
