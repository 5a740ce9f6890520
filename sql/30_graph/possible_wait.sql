-- Long rests of threads that may have been waits for others, but are not taken for waits
-- (`graph.thread_wait`): they end soon after what another thread does.
-- One row per rest, and other thread.
-- Key: thread_id, resume_ns, other_thread_id.
CREATE VIEW graph.possible_wait (
    -- The trace.
    trace_id,
    -- The thread that rests.
    thread_id,
    -- [ns] Start of its rest.
    stop_ns,
    -- [ns] Time when it continues.
    resume_ns,
    -- The other thread.
    other_thread_id,
    -- [ns] Start or end of what that did last before.
    at_ns
) AS
WITH
endpoint AS (
    SELECT trace_id, thread_id, unnest([start_ns, end_ns]) AS at_ns FROM graph.top_level_event
),

pause AS (
    SELECT DISTINCT trace_id, thread_id, stop_ns, resume_ns
    FROM graph.thread_rest AS whole
    ANTI JOIN graph.thread_wait AS wait
        ON whole.thread_id = wait.thread_id AND whole.start_ns = wait.start_ns
    WHERE has_stopped AND goes_on AND resume_ns - stop_ns >= 100_000
)

SELECT
    pause.trace_id,
    pause.thread_id,
    stop_ns,
    resume_ns,
    endpoint.thread_id AS other_thread_id,
    at_ns
FROM pause
INNER JOIN (SELECT DISTINCT trace_id, thread_id FROM graph.top_level_event) AS other
    ON pause.trace_id = other.trace_id AND pause.thread_id <> other.thread_id
ASOF INNER JOIN endpoint
    ON other.thread_id = endpoint.thread_id AND pause.resume_ns >= at_ns
WHERE at_ns > stop_ns AND at_ns >= resume_ns - 30_000;
