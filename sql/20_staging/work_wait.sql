-- Calls that wait for the work of a process group: `wait` of the work, which the profiler
-- records with Python stacks, and ops named `wait_tensor`.
-- One row per call.
-- Key: thread_id, start_ns.
CREATE TABLE staging.work_wait (
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
-- Only in traces whose ops belong to a process group on the CPU: on GPUs, streams wait.
posting AS (
    SELECT DISTINCT trace_id
    FROM (
        SELECT trace_id FROM staging.process_group_op
        UNION ALL
        SELECT trace_id FROM staging.posted_message
    )
)

SELECT trace_id, thread_id, start_ns, max(end_ns)
FROM (
    SELECT trace_id, thread_id, start_ns, end_ns
    FROM staging.slice
    INNER JOIN staging.thread USING (trace_id, pid, tid)
    WHERE cat = 'python_function' AND slice.name LIKE '<built-in method wait of %'
    UNION ALL
    SELECT trace_id, thread_id, start_ns, end_ns
    FROM staging.op
    WHERE name LIKE '%::wait_tensor'
)
WHERE trace_id IN (FROM posting)
GROUP BY trace_id, thread_id, start_ns;
