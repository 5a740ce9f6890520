-- What short calls that block may have been for, if nothing tells: the profiler did not
-- record it, and no work ended about the typical time before the call returned, or the call
-- is as short as one that waits for nothing. All work that was over by then is possible: on
-- each stream, the last.
-- One row per such call and GPU op, without what is assumed (`graph.host_awaited`).
-- Key: call_id, gpu_op_id.
CREATE VIEW graph.possible_target (
    -- The call.
    call_id,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- [ns] Typical time from its end to that of the call.
    return_ns
) AS
WITH
shortest AS (
    SELECT trace_id, name, min(end_ns - start_ns) AS lasting_ns
    FROM staging.call
    WHERE kind = 'wait'
    GROUP BY trace_id, name
),

unclear AS (
    SELECT
        call.call_id,
        call.trace_id,
        call.target,
        call.start_ns,
        call.end_ns,
        any_value(median_ns) AS return_ns,
        any_value(early_ns) AS early_ns
    FROM staging.call AS call
    INNER JOIN graph.typical_return AS typical
        ON call.trace_id = typical.trace_id AND NOT is_copy
    ANTI JOIN staging.device_wait AS recorded
        ON call.trace_id = recorded.trace_id AND call.correlation = recorded.correlation
    INNER JOIN shortest ON call.trace_id = shortest.trace_id AND call.name = shortest.name
    LEFT JOIN graph.host_awaited AS assumed ON call.call_id = assumed.call_id
    WHERE
        call.kind = 'wait'
        AND call.target IN ('stream', 'event')
        AND NOT graph.is_well_before(call.start_ns, call.end_ns)
    GROUP BY call.call_id, call.trace_id, call.target, call.start_ns, call.end_ns
    HAVING
        NOT coalesce(
            bool_or(
                gpu_op_end_ns > call.start_ns
                AND call.end_ns - call.start_ns > lasting_ns
                AND graph.is_typical(call.end_ns - gpu_op_end_ns, median_ns)
            ),
            false
        )
)

SELECT unclear.call_id, unclear.trace_id, work.gpu_op_id, coalesce(return_ns, 0)
FROM unclear
INNER JOIN staging.stream AS stream USING (trace_id)
ASOF INNER JOIN graph.launched_work AS launched
    ON
        unclear.trace_id = launched.trace_id
        AND stream.device = launched.device
        AND stream.stream = launched.stream
        AND unclear.start_ns > launched.launched_ns
ASOF INNER JOIN graph.stream_position AS ended
    ON
        unclear.trace_id = ended.trace_id
        AND stream.device = ended.device
        AND stream.stream = ended.stream
        AND unclear.end_ns + early_ns >= ended.end_ns
-- An event may have been recorded before the last work of its stream.
INNER JOIN graph.stream_position AS work
    ON
        unclear.trace_id = work.trace_id
        AND stream.device = work.device
        AND stream.stream = work.stream
        AND work.position = CASE
            WHEN target = 'event' OR ended.position >= launched.position
                THEN least(ended.position, launched.position)
        END
ANTI JOIN graph.host_awaited AS assumed
    ON unclear.call_id = assumed.call_id AND work.gpu_op_id = assumed.gpu_op_id;
