-- When each piece of GPU work usually begins, and at the latest: after its launch, and
-- after the work before it on its stream. What begins later has another cause.
-- One row per piece of GPU work.
-- Key: kernel_id.
CREATE TABLE graph.usual_start (
    -- The GPU work.
    kernel_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- [ns] Time for which its launch held it back.
    held_ns,
    -- [ns] Usual begin after its launch; NULL where that is not in the trace.
    after_launch_ns,
    -- [ns] Latest begin that its launch explains.
    launch_limit_ns,
    -- [ns] Usual begin after the work before it on its stream; NULL for the first.
    after_stream_ns,
    -- [ns] Latest begin that the work before it explains.
    stream_limit_ns
) AS
SELECT
    kernel_id,
    work.run_id,
    work.trace_id,
    coalesce(held_ns, 0),
    launch_start_ns + coalesce(held_ns, 0) + coalesce(launch.median_ns, 0),
    launch_start_ns + coalesce(held_ns, 0) + coalesce(launch.cap_ns, 0),
    previous_end_ns + coalesce(stream_gap.median_ns, 0),
    previous_end_ns + coalesce(stream_gap.cap_ns, 0)
FROM graph.stream_position AS work
LEFT JOIN graph.held_launch USING (launch_id)
LEFT JOIN graph.usual_delay AS launch
    ON
        work.trace_id = launch.trace_id
        AND work.kind = launch.kind
        AND launch.delay = 'launch'
LEFT JOIN graph.usual_delay AS stream_gap
    ON
        work.trace_id = stream_gap.trace_id
        AND work.kind = stream_gap.kind
        AND stream_gap.delay = 'stream';
