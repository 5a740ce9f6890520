-- Calls that wait for a stream, and come before or after a launch of another thread there,
-- otherwise than in the trace. Simulations keep that order (`simulation.kept_order`), but such
-- a call would not wait for that work, or have to.
-- One row per variant and waiting span of host time.
-- Key: variant_id, thread_id, position.
CREATE VIEW simulation.order_guess (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The thread that waits.
    thread_id,
    -- Position of the span in which it does.
    position,
    -- [ns] How much earlier or later that would end, at most.
    guess_ns
) AS
SELECT
    waited.variant_id,
    pair.trace_id,
    pair.thread_id,
    pair.position,
    max(
        CASE
            WHEN is_before THEN waited.end_ns - waited.start_ns
            ELSE work.end_ns - waited.end_ns
        END
    )
FROM simulation.kept_order AS pair
INNER JOIN simulation.host_span_time AS waited USING (thread_id, position)
INNER JOIN simulation.host_span_time AS launch
    ON
        waited.variant_id = launch.variant_id
        AND launch_thread_id = launch.thread_id
        AND launch_position = launch.position
INNER JOIN simulation.gpu_work_time AS work
    ON waited.variant_id = work.variant_id AND pair.gpu_op_id = work.gpu_op_id
WHERE (launch.end_ns <= waited.start_ns) <> is_before
GROUP BY waited.variant_id, pair.trace_id, pair.thread_id, pair.position;
