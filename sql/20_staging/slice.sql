-- Events with a start and an end: complete ones (`X`), and begins (`B`) with the end (`E`)
-- that closes them on their thread: the last open begin of the same name or, on threads
-- with ends without a name, the last open begin. Events that lack either are only in
-- raw.event.
-- One row per event with a duration.
-- Key: event_id.
CREATE VIEW staging.slice (
    -- The event; of a pair, the begin.
    event_id,
    -- The event that ends it: itself, or the end of the pair.
    end_event_id,
    -- The trace.
    trace_id,
    -- Category.
    cat,
    -- Name.
    name,
    -- Process, or the device for GPU work.
    pid,
    -- Thread, or the stream for GPU work.
    tid,
    -- [ns] Begin, from the time base of the trace.
    start_ns,
    -- [ns] End, from the time base of the trace.
    end_ns,
    -- Arguments as JSON text; for a pair, those of the begin.
    args
) AS
WITH
bound AS (
    SELECT
        *,
        CASE
            WHEN bool_and(ph = 'B' OR coalesce(name, '') <> '') OVER on_thread THEN name
        END AS nest
    FROM raw.event
    WHERE ph IN ('B', 'E') AND ts_ns IS NOT NULL
    WINDOW on_thread AS (PARTITION BY trace_id, pid, tid)
),

-- Number of open events in the nest: including the begin itself, and before the end.
with_level AS (
    SELECT
        *,
        sum(CASE ph WHEN 'B' THEN 1 ELSE -1 END) OVER (
            PARTITION BY trace_id, pid, tid, nest ORDER BY ts_ns, event_id
        ) + CASE ph WHEN 'E' THEN 1 ELSE 0 END AS level
    FROM bound
),

paired AS (
    SELECT
        *,
        lead(ts_ns) OVER on_level AS end_ns,
        lead(ph) OVER on_level AS next_ph,
        lead(event_id) OVER on_level AS end_event_id
    FROM with_level
    WINDOW on_level AS (
        PARTITION BY trace_id, pid, tid, nest, level ORDER BY ts_ns, event_id
    )
)

SELECT
    event_id, event_id, trace_id, cat, name, pid, tid, ts_ns, ts_ns + dur_ns, args
FROM raw.event
WHERE ph = 'X' AND dur_ns >= 0 AND ts_ns IS NOT NULL
UNION ALL
SELECT event_id, end_event_id, trace_id, cat, name, pid, tid, ts_ns, end_ns, args
FROM paired
WHERE ph = 'B' AND next_ph = 'E';
