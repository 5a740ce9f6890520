-- The kind of each span of host time on a critical path; an op of a process group on the
-- CPU moves data, and so does a wait for a message there once the other rank has posted it.
-- One row per span.
-- Key: thread_id, position.
CREATE VIEW critical_path.span_kind (
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- The enclosing launch or wait, otherwise the top-level op, or the message waited for.
    node_id,
    -- Kind, as in `critical_path.interval`.
    kind
) AS
SELECT
    span.trace_id,
    span.thread_id,
    position,
    span.start_ns,
    span.end_ns,
    coalesce(
        call_id, span.op_id, CASE WHEN message.end_ns >= span.end_ns THEN annotation_id END
    ),
    CASE
        WHEN own.op_id IS NOT NULL AND host_kind.kind = 'host_op' THEN 'communication'
        WHEN message.end_ns >= span.end_ns AND host_kind.kind = 'host_gap' THEN 'communication'
        ELSE host_kind.kind
    END
FROM overhead.timeline AS span
INNER JOIN critical_path.host_kind AS host_kind USING (type)
LEFT JOIN staging.process_group_op AS own ON span.op_id = own.op_id
ASOF LEFT JOIN
    (
        SELECT annotation_id, thread_id, start_ns, end_ns
        FROM graph.message_wait
        WHERE
            is_recorded OR annotation_id IN (SELECT rank_wait.op_id FROM graph.rank_wait)
    ) AS message
    ON span.thread_id = message.thread_id AND span.start_ns >= message.start_ns;
