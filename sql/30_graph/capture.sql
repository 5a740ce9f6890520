-- Captures of graphs: from a stream's start of a capture to its end. What is launched in
-- between does not run, but becomes part of the graph.
-- One row per capture.
-- Key: capture_id.
CREATE VIEW graph.capture (
    -- The call that starts it.
    capture_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
bound AS (
    SELECT
        *,
        lead(target) OVER on_thread AS next_target,
        lead(end_ns) OVER on_thread AS next_end_ns
    FROM staging.call
    WHERE target IN ('capture_begin', 'capture_end')
    WINDOW on_thread AS (PARTITION BY thread_id ORDER BY start_ns, call_id)
)

SELECT call_id, run_id, trace_id, start_ns, next_end_ns
FROM bound
WHERE target = 'capture_begin' AND next_target = 'capture_end';
