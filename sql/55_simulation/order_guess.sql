-- Where scenarios change the order of a call that waits for a stream and a launch of another
-- thread there, which simulations keep (`simulation.kept_order`): the call would not wait
-- for that work, or have to. Included is what would change its end by more than 0.1 % of
-- the mean step.
-- One row per variant and trace.
-- Key: variant_id, trace_id.
CREATE VIEW simulation.order_guess (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- Number of such calls.
    call_count,
    -- [ns] How much earlier or later one of them would end, at most.
    guess_ns
) AS
WITH
passing AS (
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
        ) AS guess_ns
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
    GROUP BY ALL
)

SELECT variant_id, trace_id, count(*), max(guess_ns)
FROM passing
INNER JOIN (
    SELECT trace_id, avg(end_ns - start_ns) AS step_ns FROM staging.step GROUP BY trace_id
) USING (trace_id)
WHERE guess_ns > 0.001 * step_ns
GROUP BY variant_id, trace_id;
