-- When each span of host time starts and ends in the simulation.
-- One row per variant and span of host time.
-- Key: variant_id, thread_id, position.
CREATE VIEW simulation.host_span_time (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Start, from the start of the trace.
    start_ns,
    -- [ns] End, from the start of the trace.
    end_ns
) AS
SELECT
    host.variant_id,
    run_id,
    host.trace_id,
    thread_id,
    position,
    begun.begin_ns + offset_ns - before_ns,
    CASE WHEN waits THEN ended.begin_ns ELSE begun.begin_ns + offset_ns + predicted_ns END
FROM simulation.host_offset AS host
INNER JOIN simulation.segment_time AS begun
    ON
        host.variant_id = begun.variant_id
        AND host.thread_id = begun.lane
        AND host.segment = begun.segment
LEFT JOIN simulation.segment_time AS ended
    ON
        host.variant_id = ended.variant_id
        AND host.thread_id = ended.lane
        AND host.segment + 1 = ended.segment;
