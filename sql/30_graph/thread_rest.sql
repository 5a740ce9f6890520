-- Times of 20 us and more in which a host thread shows no activity: no op, no launch and no
-- wait on a device, and no start or end of a user range. Waking a thread takes that long by
-- itself. Consecutive rests with next to nothing in between, such as parts of a backward
-- pass on the CPU, count as one longer rest.
-- One row per rest; a thread's first rest has the trace's start, its last rest the trace's
-- end.
-- Key: thread_id, start_ns.
CREATE TABLE graph.thread_rest (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Process.
    pid,
    -- Host thread.
    thread_id,
    -- [ns] Start: end of what the thread did.
    start_ns,
    -- [ns] End: start of what it does next.
    end_ns,
    -- [ns] Start of the longer rest: the thread stops.
    stop_ns,
    -- [ns] End of the longer rest: the thread continues.
    resume_ns,
    -- Whether the thread did anything before the longer rest.
    has_stopped,
    -- Whether it does anything after it.
    goes_on
) AS
WITH
busy AS (
    SELECT trace_id, thread_id, start_ns, end_ns FROM graph.top_level_event
    UNION ALL
    SELECT trace_id, thread_id, at_ns, at_ns
    FROM (
        SELECT trace_id, thread_id, unnest([start_ns, end_ns]) AS at_ns
        FROM (
            SELECT trace_id, thread_id, start_ns, end_ns FROM staging.annotation
            UNION ALL
            SELECT thread.trace_id, thread_id, start_ns, end_ns
            FROM staging.marking_call
            INNER JOIN staging.thread USING (trace_id, pid, tid)
        )
        WHERE thread_id IN (SELECT thread_id FROM graph.top_level_event)
    )
),

trace_span AS (
    SELECT trace_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM busy
    GROUP BY trace_id
),

rest AS (
    SELECT
        trace_id,
        thread_id,
        max(end_ns) OVER (
            PARTITION BY thread_id ORDER BY start_ns, end_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS last_end_ns,
        start_ns AS next_start_ns
    FROM busy
    UNION ALL
    SELECT trace_id, thread_id, max(end_ns), NULL
    FROM busy
    GROUP BY trace_id, thread_id
),

long_rest AS (
    SELECT
        *,
        coalesce(last_end_ns, first_ns) AS start_ns,
        coalesce(next_start_ns, last_ns) AS end_ns
    FROM rest
    INNER JOIN trace_span USING (trace_id)
    WHERE coalesce(next_start_ns, last_ns) - coalesce(last_end_ns, first_ns) >= 20_000
),

with_boundary AS (
    SELECT
        *,
        coalesce(
            start_ns - lag(end_ns) OVER on_thread
            > 0.05 * least(end_ns - start_ns, lag(end_ns - start_ns) OVER on_thread),
            true
        ) AS is_apart
    FROM long_rest
    WINDOW on_thread AS (PARTITION BY thread_id ORDER BY start_ns)
),

numbered AS (
    SELECT
        *,
        count_if(is_apart) OVER (PARTITION BY thread_id ORDER BY start_ns) AS number
    FROM with_boundary
)

SELECT
    run_id,
    trace_id,
    pid,
    thread_id,
    start_ns,
    end_ns,
    min(start_ns) OVER longer,
    max(end_ns) OVER longer,
    bool_and(last_end_ns IS NOT NULL) OVER longer,
    bool_and(next_start_ns IS NOT NULL) OVER longer
FROM numbered
INNER JOIN staging.thread USING (trace_id, thread_id)
WINDOW longer AS (PARTITION BY thread_id, number);
