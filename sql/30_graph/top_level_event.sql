-- The top-level view of a host thread: top-level ops, and launches and waits outside ops.
-- An event that starts in an op's last nanosecond comes after it, not inside it. An event
-- that starts before the previous one ended (rounding) counts from that end.
-- One row per top-level op, or launch or wait outside ops, that adds time to its thread.
-- Key: node_id.
CREATE TABLE graph.top_level_event (
    -- The op or call.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Whether it is an op; otherwise it is a call.
    is_op,
    -- [ns] Start, or the end of what ran before it if that is later.
    start_ns,
    -- [ns] End.
    end_ns,
    -- [ns] End of the previous top-level event on the thread.
    previous_end_ns
) AS
WITH
outer_node AS (
    SELECT op_id AS node_id, run_id, trace_id, thread_id, true AS is_op, start_ns, end_ns
    FROM staging.op
    WHERE is_top_level
    UNION ALL
    SELECT
        call_id, call.run_id, call.trace_id, call.thread_id, false, call.start_ns,
        call.end_ns
    FROM staging.call AS call
    LEFT JOIN staging.op AS op ON call.top_op_id = op.op_id
    WHERE
        kind IN ('launch', 'wait')
        AND (call.top_op_id IS NULL OR call.start_ns >= op.end_ns)
),

ordered AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY thread_id ORDER BY start_ns, end_ns DESC, node_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS previous_end_ns
    FROM outer_node
)

SELECT
    node_id,
    run_id,
    trace_id,
    thread_id,
    is_op,
    greatest(start_ns, previous_end_ns) AS start_ns,
    end_ns,
    previous_end_ns
FROM ordered
WHERE end_ns > coalesce(previous_end_ns, start_ns) OR previous_end_ns IS NULL;
