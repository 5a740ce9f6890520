-- Changes of the time of spans on host threads by scenarios: the set value, then the
-- product of the factors, then the sum of the additions. A factor for `profiler` subtracts
-- its share of the cost of all events recorded in a span, before other factors multiply what
-- is left: unprofiled, a program of twice the host time has no cost to double. Ops that compute
-- at another batch size change by their part of a span: that cost is in the fixed part of their
-- time (`prediction.op_floor`), which does not grow.
-- One row per variant and span that it changes.
-- Key: variant_id, thread_id, position.
CREATE VIEW prediction.host_edit (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- Whether it is removed: it takes no time, and waits for nothing.
    is_removed,
    -- Edits that set its time: at most one is allowed.
    set_count,
    -- [ns] The time it is set to; NULL: none.
    set_ns,
    -- The factor for its time.
    factor,
    -- [ns] What is added after that.
    add_ns
) AS
WITH
edited AS (
    -- If an edit selects a part of a span, only that is multiplied or removed
    -- (`prediction.partial_edit`).
    SELECT
        span.scenario,
        span.thread_id,
        span.position,
        action = 'remove' AND chosen_ns = span_ns AS is_removed,
        edit.factor,
        0 AS growth,
        -- An op or call that a step divides takes an addition once.
        CASE
            WHEN list_contains(lost_edits, span.edit) THEN 0
            ELSE
                round(add_ns * coalesce(to_share, 1))
                - round(add_ns * coalesce(from_share, 0))
        END AS add_ns,
        0 AS cost_ns,
        coalesce(
            round(edit.set_ns * coalesce(to_share, 1))
            - round(edit.set_ns * coalesce(from_share, 0)),
            time.set_ns
        ) AS set_ns
    FROM prediction.edited_span AS span
    INNER JOIN prediction.scenario_edit AS edit
        ON span.scenario = edit.scenario AND span.edit = edit.position
    LEFT JOIN overhead.divided_span AS divided
        ON span.thread_id = divided.thread_id AND span.position = divided.position
    LEFT JOIN prediction.partial_edit AS partial
        ON
            span.scenario = partial.scenario
            AND span.thread_id = partial.thread_id
            AND span.position = partial.position
    LEFT JOIN prediction.set_time AS time
        ON
            span.scenario = time.scenario
            AND span.edit = time.edit
            AND time.kind = 'host'
            AND span.thread_id = target_id
            AND span.position = time.position
    UNION ALL
    SELECT scenario, thread_id, position, false, 1, growth, 0, 0, NULL
    FROM prediction.computed_span
    UNION ALL
    SELECT scenario, thread_id, position, true, 1, 0, 0, 0, NULL
    FROM prediction.removed_gap
    UNION ALL
    -- A graph is launched where its first work was, and its launch is all that is left of
    -- that span.
    SELECT
        scenario,
        thread_id,
        position,
        gone_share = 1 AND set_ns IS NULL,
        1,
        0,
        0,
        0,
        set_ns
    FROM prediction.relaunched_span
    UNION ALL
    SELECT
        scenario,
        thread_id,
        recorded.position,
        false,
        1,
        0,
        0,
        event_count * (event_ns * (edit.factor - 1) + edit.add_ns),
        NULL
    FROM overhead.recorded_event AS recorded
    INNER JOIN overhead.profiler_cost USING (trace_id)
    INNER JOIN overhead.timeline AS timeline USING (thread_id, position)
    INNER JOIN prediction.scenario_edit AS edit ON edit.target = 'profiler'
    WHERE timeline.type LIKE 'T_' OR timeline.type = 'wait_data'
)

SELECT
    variant_id,
    thread_id,
    position,
    bool_or(is_removed),
    count(set_ns),
    any_value(set_ns)::BIGINT,
    coalesce(any_value(partial.factor), product(edited.factor)) * greatest(1 + sum(growth), 0),
    (
        sum(add_ns)
        + sum(cost_ns) * coalesce(any_value(partial.factor), product(edited.factor))
    )::BIGINT
FROM edited
LEFT JOIN prediction.partial_edit AS partial USING (scenario, thread_id, position)
INNER JOIN prediction.variant USING (scenario)
GROUP BY variant_id, thread_id, position;
