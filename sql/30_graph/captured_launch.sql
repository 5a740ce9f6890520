-- Launches that became parts of a graph.
-- One row per launch that is inside a capture and put nothing on a device.
-- Key: call_id.
CREATE VIEW graph.captured_launch (
    -- The launch.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The capture that contains it.
    capture_id,
    -- Innermost op around the launch.
    op_id,
    -- Name of what it launches; `memcpy` and `memset`; NULL if not recorded.
    launched_name,
    -- Its ordinal among launches of that name in the capture, from 1.
    ordinal_in_name,
    -- Number of launches of that name in the capture.
    of_name,
    -- Its ordinal among the launches of the capture, from 1.
    ordinal
) AS
WITH
launch AS (
    SELECT
        *,
        CASE target WHEN 'kernel' THEN launched_name ELSE target END AS what
    FROM staging.call
    WHERE
        kind = 'launch'
        AND target IN ('kernel', 'memcpy', 'memset')
        AND call_id NOT IN (
            SELECT call_id FROM staging.gpu_op WHERE call_id IS NOT NULL
        )
)

SELECT
    launch.call_id,
    launch.run_id,
    launch.trace_id,
    capture_id,
    op_id,
    what,
    row_number() OVER (
        PARTITION BY capture_id, what ORDER BY launch.start_ns, launch.call_id
    ),
    count(*) OVER (PARTITION BY capture_id, what),
    row_number() OVER (PARTITION BY capture_id ORDER BY launch.start_ns, launch.call_id)
FROM graph.capture
INNER JOIN launch
    ON
        graph.capture.trace_id = launch.trace_id
        AND launch.start_ns >= graph.capture.start_ns
        AND launch.end_ns <= graph.capture.end_ns;
