-- Recorded waits that hold others up: an event on a stream that had itself been made to
-- wait, with no work launched on it since, is over only after what that stream was to wait
-- for.
-- One row per recorded call, and call before it that made its awaited stream wait: of
-- several for one stream, that of the last event, which includes those before.
-- Key: call_id, passed_call_id.
CREATE VIEW graph.passed_call (
    -- The call that waits, or makes a stream wait.
    call_id,
    -- The call that made the stream wait that it waits for.
    passed_call_id
) AS
WITH
-- Calls that make a stream wait, and since when it had had no new work then.
holding AS MATERIALIZED (
    SELECT
        wait.* EXCLUDE (launched_ns),
        coalesce(work.launched_ns, -1) AS held_since_ns,
        arg_max(wait.call_id, marked_ns) OVER (
            PARTITION BY
                wait.trace_id, wait.device, wait.stream, held_since_ns, awaited_device,
                awaited_stream
            ORDER BY wait.start_ns
        ) AS last_call_id
    FROM graph.recorded_wait AS wait
    ASOF LEFT JOIN graph.launched_work AS work
        ON
            wait.trace_id = work.trace_id
            AND wait.device = work.device
            AND wait.stream = work.stream
            AND wait.start_ns > work.launched_ns
    WHERE
        target = 'stream_wait'
        AND (wait.device <> awaited_device OR wait.stream <> awaited_stream)
),

held_stream AS (
    SELECT DISTINCT trace_id, device, stream, held_since_ns, awaited_device, awaited_stream
    FROM holding
),

marked AS (
    SELECT call_id, wait.marked_ns, held_stream.*
    FROM graph.recorded_wait AS wait
    INNER JOIN held_stream
        ON
            wait.trace_id = held_stream.trace_id
            AND wait.awaited_device = held_stream.device
            AND wait.awaited_stream = held_stream.stream
            AND wait.launched_ns = held_since_ns
)

SELECT marked.call_id, last_call_id
FROM marked
ASOF INNER JOIN holding
    ON
        marked.trace_id = holding.trace_id
        AND marked.device = holding.device
        AND marked.stream = holding.stream
        AND marked.held_since_ns = holding.held_since_ns
        AND marked.awaited_device = holding.awaited_device
        AND marked.awaited_stream = holding.awaited_stream
        AND marked.marked_ns > holding.start_ns;
