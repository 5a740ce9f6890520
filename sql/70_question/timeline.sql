-- What ran when, on which thread or stream? All ranks of a run on one clock, from the start
-- of the run: what `tracedb report` draws and `tracedb export` writes.
-- One row per op, call, user range, module call and GPU op.
-- Key: track, node_id.
CREATE VIEW question.timeline (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Host thread; NULL on a device.
    thread_id,
    -- Device; NULL on the host.
    device,
    -- Stream of the device; NULL on the host.
    stream,
    -- The kind of track: `range` (user ranges), `module` (calls of modules), `host` (ops
    -- and calls) or `gpu`.
    track,
    -- Nesting depth on its track.
    depth,
    -- `range`, `module`, `op`, `launch`, `wait`, `call` (any other), `kernel`, `collective`,
    -- `memcpy`, `memset` or `other`.
    kind,
    -- [ns] Start, from the start of the run.
    start_ns,
    -- [ns] Duration.
    time_ns,
    -- Name.
    name,
    -- Name of the op it belongs to: for a call the enclosing op, for GPU work the op around
    -- its launch.
    op,
    -- The op, call, range, module call or GPU op.
    node_id
) AS
WITH
RECURSIVE nested AS (
    SELECT op_id, is_annotation, 0 AS depth
    FROM staging.op
    WHERE parent_op_id IS NULL
    UNION ALL
    SELECT op.op_id, op.is_annotation, depth + CASE WHEN nested.is_annotation THEN 0 ELSE 1 END
    FROM nested
    INNER JOIN staging.op AS op ON nested.op_id = op.parent_op_id
),

user_range AS (
    SELECT node_id, trace_id, thread_id, start_ns, end_ns, name
    FROM graph.node
    WHERE kind = 'annotation'
),

-- Ranges of a thread nest; those that took no time contain nothing.
bound AS (
    SELECT node_id, thread_id, start_ns AS at_ns, 1 AS change, end_ns AS other_ns
    FROM user_range
    UNION ALL
    SELECT node_id, thread_id, end_ns, -1, start_ns
    FROM user_range
    WHERE end_ns > start_ns
),

opened AS (
    SELECT node_id, depth
    FROM (
        SELECT
            node_id,
            change,
            (
                sum(change) OVER (
                    PARTITION BY thread_id ORDER BY at_ns, change, other_ns DESC, node_id
                    ROWS UNBOUNDED PRECEDING
                )
            )::INTEGER - 1 AS depth
        FROM bound
    )
    WHERE change = 1
),

slice AS (
    SELECT
        trace_id, thread_id, NULL::BIGINT AS device, NULL::BIGINT AS stream, 'range' AS track,
        greatest(depth, 0) AS depth, 'range' AS kind, start_ns, end_ns, name, NULL::VARCHAR AS op,
        node_id
    FROM user_range
    INNER JOIN opened USING (node_id)
    UNION ALL
    SELECT
        trace_id, thread_id, NULL::BIGINT, NULL::BIGINT, 'module', depth, 'module', start_ns, end_ns, name,
        NULL, module_call_id
    FROM staging.module_call
    UNION ALL
    SELECT
        trace_id, thread_id, NULL::BIGINT, NULL::BIGINT, 'host', depth, 'op', start_ns, end_ns, name, NULL,
        op_id
    FROM staging.op
    INNER JOIN nested USING (op_id)
    WHERE NOT op.is_annotation
    UNION ALL
    SELECT
        call.trace_id, call.thread_id, NULL::BIGINT, NULL::BIGINT, 'host',
        CASE WHEN nested.is_annotation THEN depth ELSE coalesce(depth + 1, 0) END,
        CASE call.kind WHEN 'other' THEN 'call' ELSE call.kind END,
        call.start_ns, call.end_ns, call.name, op.name, call_id
    FROM staging.call AS call
    LEFT JOIN nested USING (op_id)
    LEFT JOIN staging.op AS op USING (op_id)
    UNION ALL
    SELECT
        work.trace_id, NULL::BIGINT, device, stream, 'gpu', 0,
        CASE WHEN is_collective THEN 'collective' ELSE work.kind END,
        work.start_ns, work.end_ns, work.name, op.name, gpu_op_id
    FROM staging.gpu_op AS work
    LEFT JOIN staging.op AS op USING (op_id)
)

SELECT
    run_time.run_id,
    slice.trace_id,
    rank,
    thread_id,
    device,
    stream,
    track,
    depth,
    kind,
    slice.start_ns + shift_ns AS start_ns,
    slice.end_ns - slice.start_ns,
    name,
    op,
    node_id
FROM slice
INNER JOIN graph.run_time AS run_time USING (trace_id)
INNER JOIN staging.trace AS trace ON slice.trace_id = trace.trace_id
ORDER BY run_time.run_id, start_ns, depth, track, node_id;
