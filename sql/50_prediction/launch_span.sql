-- The host time of launch calls, and which part of it passes before the work is submitted:
-- if a method or a scenario changes the time, that part changes with it.
-- One row per span of a launch with work in the trace; steps may divide a call, and one call
-- may contain several launches.
-- Key: call_id, position.
CREATE VIEW prediction.launch_span (
    -- The launch.
    call_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Its measured duration.
    span_ns,
    -- [ns] From the start of the launch until its work is submitted, as measured.
    submit_ns,
    -- [1] That as a share of the launch.
    submit_share
) AS
SELECT
    launch.call_id,
    span.trace_id,
    thread_id,
    position,
    span.end_ns - span.start_ns AS span_ns,
    submit_ns,
    submit_share
FROM graph.launch_submission AS launch
LEFT JOIN graph.nested_launch AS nested ON launch.call_id = nested.call_id
INNER JOIN overhead.timeline AS span
    ON coalesce(outer_call_id, launch.call_id) = span.call_id
WHERE span.type = 'T4' AND span_ns > 0;
