-- When a host thread went on, of several causes at one time the last: what a walk
-- backwards along the thread comes to.
-- One row per thread and time at which it went on.
-- Key: trace_id, thread_id, resume_ns.
CREATE VIEW graph.last_resume (
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- [ns] When it went on.
    resume_ns,
    -- Its number, as in `graph.host_cause`.
    resume_id
) AS
SELECT trace_id, thread_id, resume_ns, max(resume_id)
FROM graph.host_cause
GROUP BY trace_id, thread_id, resume_ns;
