-- Launches whose work would be in the trace if nothing were lost: excluding those into a
-- graph, which do not run, and those to devices whose work the trace does not identify.
-- One row per launch.
-- Key: call_id.
CREATE VIEW graph.expected_launch (
    -- The launch.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Whether its work is in the trace; of a graph, as much as in other steps.
    has_work
) AS
WITH
unidentified AS (
    SELECT trace_id
    FROM staging.gpu_op
    GROUP BY trace_id
    HAVING bool_and(kind = 'other')
)

SELECT
    launch.call_id,
    launch.run_id,
    launch.trace_id,
    launch.call_id IN (SELECT call_id FROM staging.gpu_op WHERE call_id IS NOT NULL)
    AND launch.call_id NOT IN (SELECT call_id FROM graph.short_replay)
FROM staging.call AS launch
ANTI JOIN unidentified ON launch.trace_id = unidentified.trace_id
ANTI JOIN graph.captured_launch AS captured ON launch.call_id = captured.call_id
WHERE launch.kind = 'launch';
