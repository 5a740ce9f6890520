-- The innermost open module call on a thread, from each start and each end of a call on.
-- One row per thread and time at which that changes.
-- Key: thread_id, at_ns.
CREATE VIEW graph.open_module (
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- [ns] Time of the change.
    at_ns,
    -- The call; NULL if none is open.
    module_call_id
) AS
WITH
bound AS (
    SELECT trace_id, thread_id, start_ns AS at_ns, module_call_id, depth, true AS is_begin
    FROM staging.module_call
    UNION ALL
    SELECT trace_id, thread_id, end_ns, parent_module_call_id, depth - 1, false
    FROM staging.module_call
)

-- Of several at one time: the innermost that starts, otherwise what enclosed all that end.
SELECT trace_id, thread_id, at_ns, module_call_id
FROM bound
QUALIFY
    row_number() OVER (
        PARTITION BY thread_id, at_ns
        ORDER BY is_begin DESC, CASE WHEN is_begin THEN -depth ELSE depth END
    ) = 1;
