-- Where the times of scenarios depend on what waits are for, or whether there is a wait,
-- because the profiler did not record it, or it would change. `host`: a call would end at
-- another time if it were for other work (`graph.possible_target`). `stream`: GPU work would
-- start later if it had to wait for work that was over before it in the trace
-- (`graph.possible_stream_wait`). `order`: a call would wait for more or less work of other
-- threads (`simulation.order_guess`). `send`: a send would not wait for its receiver
-- (`simulation.send_guess`). Included is what changes by more than 0.1 % of the median step.
-- One row per variant, trace and kind.
-- Key: variant_id, trace_id, kind.
CREATE VIEW simulation.wait_guess (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- `host`, `stream`, `order` or `send`.
    kind,
    -- Calls, or GPU work, of which that is true.
    wait_count,
    -- [ns] How much earlier or later they would end, or later they would start, at most.
    guess_ns
) AS
WITH
host AS (
    SELECT
        waited.variant_id, target.trace_id, target.call_id AS waiting_id,
        max(abs(
            waited.end_ns
            - greatest(waited.start_ns + span.end_ns - span.start_ns, work.end_ns + return_ns)
        )) AS guess_ns
    FROM graph.possible_target AS target
    INNER JOIN overhead.timeline AS span USING (call_id)
    INNER JOIN simulation.host_span_time AS waited USING (thread_id, position)
    INNER JOIN simulation.gpu_work_time AS work
        ON waited.variant_id = work.variant_id AND target.gpu_op_id = work.gpu_op_id
    ANTI JOIN prediction.removed_wait AS removed
        ON
            waited.variant_id = removed.variant_id
            AND removed.kind = 'host'
            AND waited.thread_id = removed.waiting_id
            AND waited.position = removed.position
    GROUP BY waited.variant_id, target.trace_id, target.call_id
),

stream AS (
    SELECT
        work.variant_id, pair.trace_id, pair.gpu_op_id AS waiting_id,
        max(awaited.end_ns - work.start_ns) AS guess_ns
    FROM graph.possible_stream_wait AS pair
    INNER JOIN simulation.gpu_work_time AS work USING (gpu_op_id)
    INNER JOIN simulation.gpu_work_time AS awaited
        ON
            work.variant_id = awaited.variant_id
            AND pair.awaited_gpu_op_id = awaited.gpu_op_id
    GROUP BY work.variant_id, pair.trace_id, pair.gpu_op_id
),

stepping AS (
    SELECT trace_id, median(end_ns - start_ns) AS step_ns
    FROM staging.step
    GROUP BY trace_id
)

SELECT variant_id, trace_id, kind, count(*), max(guess_ns)
FROM (
    SELECT *, 'host' AS kind FROM host
    UNION ALL
    SELECT *, 'stream' FROM stream
    UNION ALL
    SELECT variant_id, trace_id, position, guess_ns, 'order' FROM simulation.order_guess
    UNION ALL
    SELECT variant_id, trace_id, gpu_op_id, guess_ns, 'send' FROM simulation.send_guess
)
INNER JOIN stepping USING (trace_id)
WHERE guess_ns > 0.001 * step_ns
GROUP BY variant_id, trace_id, kind;
