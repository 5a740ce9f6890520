-- Python calls in which a thread waits for another one, and those that may end such waits: of
-- conditions (queues, events, futures and semaphores of the standard library wait for one), of
-- simple queues, of locks outside of these, and of threads that end. The profiler records
-- them with Python stacks, also on threads whose ops it does not record.
-- One row per call; of calls within each other that wait, the outermost.
-- Key: lock_call_id.
CREATE VIEW staging.lock_call (
    -- The call's event.
    lock_call_id,
    -- The trace.
    trace_id,
    -- Process.
    pid,
    -- Thread, as the profiler numbers it.
    tid,
    -- `condition`, `queue`, `lock` or `thread`.
    kind,
    -- Whether the call waits; otherwise it may end waits.
    is_wait,
    -- [ns] Start; of the call that a thread ends with, its end.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
call AS (
    SELECT
        event_id,
        trace_id,
        pid,
        tid,
        CASE
            WHEN regexp_matches(name, ': (wait|notify)$') THEN 'condition'
            WHEN name LIKE '%.SimpleQueue object%' THEN 'queue'
            WHEN name LIKE '<built-in%' THEN 'lock'
            ELSE 'thread'
        END AS kind,
        regexp_matches(name, ': (wait|join)$|method (acquire|__enter__|get) of ') AS is_wait,
        CASE WHEN name LIKE '%: _bootstrap' THEN end_ns ELSE start_ns END AS start_ns,
        end_ns
    FROM staging.slice
    WHERE
        cat = 'python_function'
        AND regexp_matches(
            name,
            '^<built-in method (acquire|release|__enter__|__exit__) of _thread\.R?[lL]ock '
            || '|^<built-in method (get|put) of _queue\.SimpleQueue '
            || '|(^|/)threading\.py\(\d+\): (wait|notify|join|_bootstrap)$'
        )
)

SELECT call.*
FROM call
ASOF LEFT JOIN (
    SELECT
        trace_id, pid, tid, is_wait, start_ns,
        max(end_ns) OVER (
            PARTITION BY trace_id, pid, tid, is_wait ORDER BY start_ns, end_ns DESC
            ROWS UNBOUNDED PRECEDING
        ) AS end_ns
    FROM call
    WHERE is_wait
) AS around
    ON
        call.trace_id = around.trace_id
        AND call.pid = around.pid
        AND call.tid = around.tid
        AND call.start_ns > around.start_ns
WHERE coalesce(around.end_ns < call.end_ns, true);
