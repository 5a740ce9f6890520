-- Host time that belongs to another launch, or to none, if edits fuse or capture GPU work:
-- for fused work, calls except the first launch nothing; for a graph, the first call
-- launches everything. If ops are captured, all of their host time from the first to the
-- last launch is removed, with what is between them, but not the launches of what stays
-- outside of graphs.
-- Without edits it is empty.
-- One row per edit and span of host time.
-- Key: scenario, edit, thread_id, position.
CREATE TABLE prediction.relaunched_span (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [1] The removed part of the span.
    gone_share,
    -- [ns] The time it is set to, for the launch of a graph; NULL for all others.
    set_ns
) AS
WITH
-- The spans of captured ops: those of the outermost ops around them.
op_span AS (
    SELECT scenario, edit, thread_id, position, type, op_id, chosen_ns / span_ns AS share
    FROM prediction.edited_span
    INNER JOIN overhead.timeline USING (thread_id, position)
    SEMI JOIN prediction.captured_work USING (scenario, edit)
    WHERE span_ns > 0
),

op_range AS (
    SELECT
        scenario, edit, thread_id, op_id, min(position) AS first_position,
        max(position) AS last_position
    FROM op_span
    WHERE op_id IS NOT NULL
    GROUP BY scenario, edit, thread_id, op_id
),

-- Each graph, with the range of its ops.
recorded AS (
    SELECT
        work.scenario,
        work.edit,
        launch_thread_id AS thread_id,
        launch_position,
        host_ns,
        min(coalesce(first_position, own_position)) AS first_position,
        max(coalesce(last_position, own_position)) AS last_position,
        max(own_position) AS last_launch,
        count(op_range.op_id) > 0 AS has_ops
    FROM prediction.captured_work AS work
    INNER JOIN overhead.timeline AS own
        ON launch_thread_id = own.thread_id AND own_position = own.position
    LEFT JOIN op_range
        ON
            work.scenario = op_range.scenario
            AND work.edit = op_range.edit
            AND launch_thread_id = op_range.thread_id
            AND own.op_id = op_range.op_id
    GROUP BY work.scenario, work.edit, launch_thread_id, launch_position, host_ns
),

-- But only up to a wait: what a thread waits in is not captured.
bound AS (
    SELECT
        recorded.*,
        coalesce(
            (
                SELECT max(wait.position)
                FROM prediction.standing_wait AS wait
                WHERE
                    wait.scenario = recorded.scenario
                    AND wait.thread_id = recorded.thread_id
                    AND wait.position BETWEEN first_position AND launch_position
            ) + 1,
            first_position
        ) AS from_position,
        coalesce(
            (
                SELECT min(wait.position)
                FROM prediction.standing_wait AS wait
                WHERE
                    wait.scenario = recorded.scenario
                    AND wait.thread_id = recorded.thread_id
                    AND wait.position BETWEEN last_launch AND last_position
            ) - 1,
            last_position
        ) AS to_position
    FROM recorded
),

-- Launches of work that is in no graph, and is not removed either.
staying AS (
    SELECT DISTINCT op_span.scenario, op_span.thread_id, op_span.position
    FROM op_span
    INNER JOIN prediction.launch_span AS launch USING (thread_id, position)
    INNER JOIN graph.stream_position AS work USING (call_id)
    ANTI JOIN prediction.captured_work AS captured
        ON op_span.scenario = captured.scenario AND work.gpu_op_id = captured.gpu_op_id
    ANTI JOIN prediction.cleared_stream AS cleared
        ON op_span.scenario = cleared.scenario AND work.gpu_op_id = cleared.gpu_op_id
    WHERE op_span.type = 'T4'
),

relaunched AS (
    SELECT
        scenario, edit, fused.trace_id, thread_id, span.position, 1 AS share, NULL AS set_ns
    FROM prediction.fused_work AS fused
    LEFT JOIN graph.nested_launch AS nested ON fused.call_id = nested.call_id
    INNER JOIN overhead.timeline AS span
        ON coalesce(outer_call_id, fused.call_id) = span.call_id
    WHERE gpu_op_id <> first_gpu_op_id AND type = 'T4'
    UNION ALL
    SELECT
        scenario, edit, captured.trace_id, thread_id, span.position, 1,
        CASE WHEN span.position = launch_position THEN host_ns END
    FROM prediction.captured_work AS captured
    LEFT JOIN graph.nested_launch AS nested ON captured.call_id = nested.call_id
    INNER JOIN overhead.timeline AS span
        ON coalesce(outer_call_id, captured.call_id) = span.call_id
    WHERE type = 'T4'
    UNION ALL
    SELECT bound.scenario, bound.edit, trace_id, thread_id, span.position, share, NULL
    FROM bound
    INNER JOIN op_span USING (scenario, edit, thread_id)
    INNER JOIN overhead.timeline AS span USING (thread_id, position)
    ANTI JOIN staying USING (scenario, thread_id, position)
    WHERE position BETWEEN from_position AND to_position
    UNION ALL
    SELECT scenario, edit, trace_id, thread_id, position, 1, NULL
    FROM bound
    INNER JOIN overhead.timeline AS span USING (thread_id)
    WHERE has_ops AND position BETWEEN from_position AND to_position AND type = 'T1'
)

SELECT
    scenario, edit, any_value(trace_id) AS trace_id, thread_id, position, max(share),
    max(set_ns)
FROM relaunched
GROUP BY scenario, edit, thread_id, position;
