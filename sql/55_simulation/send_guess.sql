-- Sends that are taken to wait for a receiver that comes later, although no trace shows
-- whether they do: no send of their size, or of a smaller one, was seen with a late receiver
-- (`graph.collective.is_eager`).
-- One row per variant and such send.
-- Key: variant_id, gpu_op_id.
CREATE VIEW simulation.send_guess (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The send.
    gpu_op_id,
    -- [ns] How much earlier it would end if it did not wait.
    guess_ns
) AS
WITH
send AS (
    SELECT
        collective.*,
        element_type,
        moving_ns > 0 AND waiting_ns > uncertainty_ns + 10_000 AS is_waiting
    FROM graph.collective AS collective
    INNER JOIN staging.collective AS sent USING (node_id)
    INNER JOIN graph.clock AS clock ON collective.trace_id = clock.trace_id
    WHERE collective.kind = 'send' AND NOT is_eager
),

-- A larger send waits, too.
waiting AS (
    SELECT run_id, element_type, min(element_count) AS least_elements
    FROM send
    WHERE is_waiting
    GROUP BY run_id, element_type
)

SELECT
    sent.variant_id,
    sent.trace_id,
    sent.gpu_op_id,
    received.start_ns + receiver.run_origin_ns - sent.start_ns - sender.run_origin_ns
FROM send
ANTI JOIN waiting
    ON
        send.run_id = waiting.run_id
        AND send.element_type IS NOT DISTINCT FROM waiting.element_type
        AND send.element_count >= least_elements
INNER JOIN graph.collective AS receive
    ON send.last_node_id = receive.last_node_id AND receive.kind = 'recv'
INNER JOIN simulation.gpu_work_time AS sent ON send.node_id = sent.gpu_op_id
INNER JOIN simulation.gpu_work_time AS received
    ON receive.node_id = received.gpu_op_id AND sent.variant_id = received.variant_id
INNER JOIN simulation.origin AS sender ON sent.trace_id = sender.trace_id
INNER JOIN simulation.origin AS receiver ON received.trace_id = receiver.trace_id
WHERE
    NOT is_waiting
    AND received.start_ns + receiver.run_origin_ns > sent.start_ns + sender.run_origin_ns;
