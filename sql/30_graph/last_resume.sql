-- When a host thread continued, by the last of several causes at one time: what a walk
-- backwards along the thread reaches.
-- One row per thread and time at which it continued.
-- Key: trace_id, thread_id, resume_ns.
CREATE VIEW graph.last_resume (
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- [ns] Time at which it continued.
    resume_ns,
    -- Its number, as in `graph.host_cause`.
    resume_id
) AS
SELECT trace_id, thread_id, resume_ns, max(resume_id)
FROM graph.host_cause
GROUP BY trace_id, thread_id, resume_ns;
