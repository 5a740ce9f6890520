-- Python functions, and calls of the host such as launches, that the user named as steps of
-- a trace: those of the Python functions if any has such a name, otherwise of the calls. User
-- ranges and ops come first: if one has such a name, there are none.
-- One row per call of a trace whose steps the user named.
-- Key: event_id.
CREATE VIEW staging.marking_call (
    -- The call's event.
    event_id,
    -- The trace.
    trace_id,
    -- Process.
    pid,
    -- Thread.
    tid,
    -- Name.
    name,
    -- [ns] Start, from the time base of the trace.
    start_ns,
    -- [ns] End, from the time base of the trace.
    end_ns
) AS
SELECT event_id, trace_id, pid, tid, slice.name, start_ns, end_ns
FROM staging.slice AS slice
INNER JOIN raw.trace AS trace USING (trace_id)
WHERE
    (step_mark IS NOT NULL OR step_from IS NOT NULL)
    AND (cat = 'python_function' OR staging.is_host_category(cat))
    AND regexp_full_match(slice.name, coalesce(step_from, step_mark))
    AND trace_id NOT IN (SELECT trace_id FROM staging.host_event WHERE is_step_mark)
QUALIFY
    cat = 'python_function'
    OR NOT bool_or(cat = 'python_function') OVER (PARTITION BY trace_id);
