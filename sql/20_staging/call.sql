-- Runtime and driver calls: launches, waits and the rest.
-- One row per call.
-- Key: call_id.
CREATE TABLE staging.call (
    -- The call's event.
    call_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread that made the call.
    thread_id,
    -- Name.
    name,
    -- `launch` (puts work on a device), `wait` (blocks the host for a device) or `other`.
    kind,
    -- What it launches (kernel, memcpy, memset, graph) or waits for (stream, device, event).
    target,
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Innermost op that was open on the thread when it began.
    op_id,
    -- Outermost op that was open then and is no user range.
    top_op_id,
    -- Outermost op that was open then, user ranges counted where recorded as ops.
    outermost_op_id,
    -- Number that it shares with the GPU work it launched.
    correlation,
    -- External id as recorded: the op's, or in files of 2022-24 the correlation.
    external_id,
    -- Name of the kernel that it launches, where the profiler says it (AMD).
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
            regexp_replace(call_name.name, '^(cuda|hip|cu)', ''), call_kind.pattern
        )
    GROUP BY call_name.name
),

launching AS (
    SELECT DISTINCT trace_id, try_cast(args ->> '$.correlation' AS BIGINT) AS correlation
    FROM staging.slice
    WHERE cat IN ('kernel', 'Kernel', 'gpu_memcpy', 'Memcpy', 'gpu_memset', 'Memset')
)

SELECT
    call.event_id AS call_id,
    staging.thread.run_id,
    call.trace_id,
    thread_id,
    call.name,
    coalesce(
        named.kind, CASE WHEN launching.correlation IS NOT NULL THEN 'launch' ELSE 'other' END
    ) AS kind,
    named.target,
    call.start_ns,
    call.end_ns,
    parent_event_id AS op_id,
    top_event_id AS top_op_id,
    outermost_event_id AS outermost_op_id,
    call.correlation,
    external_id,
    launched_name
FROM call
INNER JOIN staging.thread USING (trace_id, pid, tid)
LEFT JOIN named ON call.name = named.name
LEFT JOIN launching
    ON call.trace_id = launching.trace_id AND call.correlation = launching.correlation
LEFT JOIN raw.nesting ON call.event_id = raw.nesting.event_id;
