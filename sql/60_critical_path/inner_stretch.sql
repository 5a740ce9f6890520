-- Stretches of a thread that start within an op or call: whatever waits in it, or might,
-- continues from a time inside it (`critical_path.thread_stretch`).
-- One row per op or call and stretch that starts in it.
-- Key: node_id, resume_id.
CREATE TABLE critical_path.inner_stretch (
    -- The op or call.
    node_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- The stretch.
    resume_id
) AS
WITH RECURSIVE
inside AS (
    SELECT call_id AS node_id, op_id, stretch.trace_id, stretch.thread_id, resume_id
    FROM (SELECT DISTINCT call_id FROM graph.host_awaited)
    INNER JOIN staging.call AS call USING (call_id)
    INNER JOIN critical_path.thread_stretch AS stretch
        ON call.thread_id = stretch.thread_id AND call.end_ns = resume_ns
    WHERE stretch.trace_id IN (SELECT trace_id FROM staging.computing)
    UNION
    SELECT op.op_id, op.parent_op_id, inside.trace_id, inside.thread_id, resume_id
    FROM inside
    INNER JOIN (SELECT op_id, parent_op_id FROM staging.op) AS op USING (op_id)
)

SELECT node_id, trace_id, thread_id, resume_id FROM inside;
