-- The kind of each span of host time on a critical path; an op of a process group on the
-- CPU moves data.
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
    -- The enclosing launch or wait, otherwise the top-level op.
    node_id,
    -- Kind, as in `critical_path.interval`.
    kind
) AS
SELECT
    span.trace_id,
    thread_id,
    position,
    span.start_ns,
    span.end_ns,
    coalesce(call_id, span.op_id),
    CASE
        WHEN own.op_id IS NOT NULL AND host_kind.kind = 'host_op' THEN 'communication'
        ELSE host_kind.kind
    END
FROM overhead.timeline AS span
INNER JOIN critical_path.host_kind AS host_kind USING (type)
LEFT JOIN staging.process_group_op AS own ON span.op_id = own.op_id;
