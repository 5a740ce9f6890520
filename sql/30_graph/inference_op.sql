-- Ops of a model that runs without gradients while another pass of it, or another model, is
-- trained: validation, rollouts, teachers. Autograd records no op among them, as under
-- `torch.no_grad()`, and they have the kinds of ops that take at least a third of the time
-- of those whose gradients are computed; the averaging of weights, for example, does not.
-- What little runs between two such sequences belongs to them. Batches, steps, backward
-- passes and optimizers end a sequence.
-- One row per top-level op, or launch or wait outside of ops, of the main thread.
-- Key: node_id.
CREATE VIEW graph.inference_op (
    -- The op or call.
    node_id
) AS
WITH
pass AS (
    SELECT trace_id, start_ns, end_ns FROM graph.backward_range WHERE NOT is_named
),

boundary AS (
    SELECT thread_id, start_ns AS at_ns FROM staging.loading_range
    UNION
    SELECT thread_id, start_ns FROM staging.step
    UNION
    SELECT thread_id, unnest([start_ns, end_ns])
    FROM staging.annotation
    WHERE name LIKE 'Optimizer.%'
),

recorded AS (
    SELECT DISTINCT top_op_id FROM staging.op WHERE sequence_number >= 0 AND NOT is_annotation
),

event AS (
    SELECT
        event.*,
        op.name,
        recorded.top_op_id IS NOT NULL AS is_recorded,
        greatest(boundary.at_ns, pass.end_ns) AS boundary_ns
    FROM graph.top_level_event AS event
    INNER JOIN staging.thread USING (thread_id)
    LEFT JOIN staging.op AS op ON node_id = op_id
    LEFT JOIN recorded ON node_id = recorded.top_op_id
    ASOF LEFT JOIN pass
        ON event.trace_id = pass.trace_id AND event.start_ns >= pass.start_ns
    ASOF LEFT JOIN staging.loading_range AS loading
        ON event.thread_id = loading.thread_id AND event.start_ns >= loading.start_ns
    ASOF LEFT JOIN boundary
        ON event.thread_id = boundary.thread_id AND event.start_ns >= boundary.at_ns
    WHERE
        role = 'main'
        AND coalesce(pass.end_ns <= event.start_ns, true)
        AND coalesce(loading.end_ns <= event.start_ns, true)
),

-- Sequences of ops that are recorded, or not.
ordered AS (
    SELECT *, count(*) FILTER (is_new) OVER in_order AS ordinal
    FROM (
        SELECT
            *,
            (is_recorded, boundary_ns) IS DISTINCT FROM (
                lag(is_recorded) OVER in_order, lag(boundary_ns) OVER in_order
            ) AS is_new
        FROM event
        WINDOW in_order AS (PARTITION BY thread_id ORDER BY start_ns, node_id)
    )
    WINDOW in_order AS (
        PARTITION BY thread_id ORDER BY start_ns, node_id ROWS UNBOUNDED PRECEDING
    )
),

-- Medians, because one op may be interrupted for long.
forward AS (
    SELECT
        trace_id,
        name,
        count(*) * median(end_ns - start_ns) AS time_ns,
        sum(time_ns) OVER (PARTITION BY trace_id) AS all_ns
    FROM graph.differentiated_op
    GROUP BY trace_id, name
),

-- Whether autograd records the model that each sequence runs, if it does.
sequence AS (
    SELECT
        thread_id, ordinal, any_value(boundary_ns) AS boundary_ns,
        CASE WHEN 3 * sum(time_ns) >= any_value(all_ns) THEN any_value(is_recorded) END
        AS is_trained
    FROM (
        SELECT DISTINCT trace_id, thread_id, ordinal, boundary_ns, is_recorded, name
        FROM ordered
    )
    LEFT JOIN forward USING (trace_id, name)
    GROUP BY thread_id, ordinal
),

placed AS (
    SELECT
        thread_id, ordinal,
        coalesce(
            is_trained,
            last_value(is_trained IGNORE NULLS) OVER before
            OR first_value(is_trained IGNORE NULLS) OVER behind
        ) AS is_trained
    FROM sequence
    WINDOW
        before AS (
            PARTITION BY thread_id, boundary_ns ORDER BY ordinal
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        behind AS (
            PARTITION BY thread_id, boundary_ns ORDER BY ordinal
            ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        )
)

SELECT node_id
FROM ordered
INNER JOIN placed USING (thread_id, ordinal)
WHERE NOT is_trained AND trace_id IN (SELECT trace_id FROM pass);
