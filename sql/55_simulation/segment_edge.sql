-- Dependencies between segments: start of the target >= start of the source + weight. A
-- host segment starts at the end of the wait before it, a GPU segment when its stream is
-- free for it.
-- One row per dependency between segments.
-- Key: variant_id, trace_id, source_trace_id, source_lane, source_segment, target_lane,
-- target_segment, kind, gpu_op_id, weight_ns.
CREATE TABLE simulation.segment_edge (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace of the target.
    trace_id,
    -- The trace of the source; of another rank if a collective is awaited.
    source_trace_id,
    -- Lane of the source: a thread, minus the first work of a stream, or 0, the origin.
    source_lane,
    -- Segment of that lane.
    source_segment,
    -- Lane of the target.
    target_lane,
    -- Segment of that lane.
    target_segment,
    -- `origin`, `host` (thread order), `stream` (stream order), `return` (the host waits
    -- for GPU work), `stream_wait`, `thread` (the host waits for another thread) or
    -- `arrival` (for that of another rank).
    kind,
    -- GPU work whose end is awaited; NULL if that is host time.
    gpu_op_id,
    -- [ns] Minimum time from start to start.
    weight_ns
) AS
WITH
waiting AS (
    SELECT variant_id, trace_id, thread_id, position, segment, offset_ns, predicted_ns
    FROM simulation.host_offset
    WHERE waits
),

lane AS (
    SELECT variant_id, trace_id, thread_id AS lane
    FROM simulation.host_offset
    WHERE position = 1
    UNION ALL
    SELECT variant_id, trace_id, lane
    FROM simulation.gpu_offset
    WHERE segment = 0 AND is_first
)

SELECT
    variant_id,
    trace_id,
    trace_id AS source_trace_id,
    0 AS source_lane,
    0 AS source_segment,
    lane AS target_lane,
    0 AS target_segment,
    'origin' AS kind,
    NULL::BIGINT AS gpu_op_id,
    0 AS weight_ns
FROM lane
UNION ALL
SELECT
    variant_id, trace_id, trace_id, thread_id, segment, thread_id, segment + 1, 'host',
    NULL, offset_ns + predicted_ns
FROM waiting
UNION ALL
SELECT
    waiting.variant_id, waiting.trace_id, waiting.trace_id,
    awaited.thread_id, awaited.segment + awaited.waits::INTEGER,
    waiting.thread_id, waiting.segment + 1, 'thread',
    NULL, CASE WHEN awaited.waits THEN 0 ELSE awaited.offset_ns + awaited.predicted_ns END
    + delay_ns
FROM waiting
INNER JOIN prediction.awaited_thread AS other USING (variant_id, thread_id, position)
INNER JOIN simulation.host_offset AS awaited
    ON
        waiting.variant_id = awaited.variant_id
        AND awaited_thread_id = awaited.thread_id
        AND awaited_position = awaited.position
UNION ALL
SELECT
    meeting.variant_id, meeting.trace_id, arrival.trace_id,
    arrival.thread_id, arrived.segment + is_woken::INTEGER,
    meeting.thread_id, host.segment + 1, 'arrival',
    NULL,
    CASE WHEN is_woken THEN 0 ELSE arrived.offset_ns + arrived.predicted_ns END
    + arrival_origin.run_origin_ns - origin.run_origin_ns
FROM simulation.meeting_wait AS meeting
INNER JOIN simulation.host_offset AS host USING (variant_id, thread_id, position)
INNER JOIN simulation.rank_arrival AS arrival
    ON
        meeting.variant_id = arrival.variant_id
        AND meeting.last_op_id = arrival.last_op_id
        AND meeting.op_id <> arrival.op_id
INNER JOIN simulation.host_offset AS arrived
    ON
        arrival.variant_id = arrived.variant_id
        AND arrival.thread_id = arrived.thread_id
        AND arrival.position = arrived.position
INNER JOIN simulation.origin AS origin ON meeting.trace_id = origin.trace_id
INNER JOIN simulation.origin AS arrival_origin ON arrival.trace_id = arrival_origin.trace_id
UNION ALL
SELECT
    variant_id, work.trace_id, source_trace_id, source_lane, source_segment, target_lane,
    target_segment, kind, gpu_op_id, weight_ns + delay_ns
FROM simulation.awaited_work
INNER JOIN simulation.work_end AS work USING (variant_id, gpu_op_id);
