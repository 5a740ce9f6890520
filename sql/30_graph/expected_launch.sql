-- Launches whose work a trace would have if nothing were lost: not those into a graph, which
-- run nowhere, nor those to devices of whose work the trace does not say what it is.
-- One row per launch.
-- Key: call_id.
CREATE VIEW graph.expected_launch (
    -- The launch.
    call_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Whether its work is there.
    has_work
) AS
WITH
untold AS (
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
FROM staging.call AS launch
ANTI JOIN untold ON launch.trace_id = untold.trace_id
ANTI JOIN graph.captured_launch AS captured ON launch.call_id = captured.call_id
WHERE launch.kind = 'launch';
