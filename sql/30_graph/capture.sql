-- Recordings of graphs: from a stream's begin of a capture to its end. What is launched
-- meanwhile does not run, but becomes a part of the graph.
-- One row per capture.
-- Key: capture_id.
CREATE VIEW graph.capture (
    -- The call that begins it.
    capture_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- [ns] Begin.
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
