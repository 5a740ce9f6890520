-- Runtime and driver calls: launches, waits and the rest.
-- One row per call.
-- Key: call_id.
CREATE TABLE staging.call (
    -- The call's event.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread that made the call.
    thread_id,
    -- Name.
    name,
    -- `launch` (puts work on a device), `wait` (blocks the host until a device is done) or
    -- `other`.
    kind,
    -- What it launches (kernel, memcpy, memset, graph) or waits for (stream, device,
    -- event); for other calls `stream_wait` (makes a stream wait for an event),
    -- `capture_begin` and `capture_end` (of a graph).
    target,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Innermost op that was open on the thread when it started.
    op_id,
    -- Outermost enclosing op that is not a user range.
    top_op_id,
    -- Outermost enclosing op, including user ranges recorded as ops.
    outermost_op_id,
    -- Correlation number shared with the GPU work it launched; NULL if calls of another
    -- process have it too, as in files of several ranks merged into one.
    correlation,
    -- External id as recorded: the op's, or in files of 2022-24 the correlation.
    external_id,
    -- Name of the kernel that it launches, if the profiler records it (AMD, XLA).
    launched_name
) AS
WITH
call AS (
    FROM staging.host_event
    WHERE kind = 'call'
),

named AS (
    SELECT call_name.name, any_value(call_kind.kind) AS kind, any_value(target) AS target
    FROM (SELECT DISTINCT name FROM call) AS call_name
    INNER JOIN staging.call_kind
        ON regexp_full_match(
            call_name.name, concat('([a-z][a-z0-9]*)?(', call_kind.pattern, ')')
        )
    GROUP BY call_name.name
),

launching AS (
    SELECT DISTINCT trace_id, try_cast(args ->> '$.correlation' AS BIGINT) AS correlation
    FROM staging.slice
    WHERE staging.gpu_op_kind(cat, args) <> 'other'
),

repeated AS (
    SELECT trace_id, correlation, count(DISTINCT pid) > 1 AS is_ambiguous
    FROM call
    WHERE correlation <> 0
    GROUP BY trace_id, correlation
    HAVING count(*) > 1
),

-- Calls that share a correlation with an enclosing call on their thread: the driver's call
-- inside the runtime's, which launches nothing more.
inner_call AS (
    SELECT DISTINCT inside.event_id, true AS launches_nothing
    FROM call AS inside
    INNER JOIN repeated USING (trace_id, correlation)
    INNER JOIN call AS around USING (trace_id, correlation, pid, tid)
    WHERE
        around.end_ns >= inside.end_ns
        AND (around.start_ns, inside.end_ns, around.event_id)
        < (inside.start_ns, around.end_ns, inside.event_id)
)

SELECT
    call.event_id AS call_id,
    staging.thread.run_id,
    call.trace_id,
    thread_id,
    call.name,
    CASE
        WHEN launches_nothing THEN 'other'
        ELSE coalesce(named.kind, if(launching.correlation IS NULL, 'other', 'launch'))
    END AS kind,
    CASE WHEN launches_nothing IS NULL THEN named.target END AS target,
    call.start_ns,
    call.end_ns,
    parent_event_id AS op_id,
    top_event_id AS top_op_id,
    outermost_event_id AS outermost_op_id,
    CASE WHEN is_ambiguous IS DISTINCT FROM true THEN call.correlation END,
    external_id,
    launched_name
FROM call
INNER JOIN staging.thread USING (trace_id, pid, tid)
LEFT JOIN named ON call.name = named.name
LEFT JOIN launching
    ON call.trace_id = launching.trace_id AND call.correlation = launching.correlation
LEFT JOIN repeated
    ON call.trace_id = repeated.trace_id AND call.correlation = repeated.correlation
LEFT JOIN inner_call
    ON call.event_id = inner_call.event_id AND named.kind IS DISTINCT FROM 'wait'
LEFT JOIN raw.nesting ON call.event_id = raw.nesting.event_id;
