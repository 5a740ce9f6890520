-- What recorded calls do not wait for any more because scenarios remove waits of streams
-- (`graph.recorded_mark`): removed calls, everything; others, what a removed call would have
-- passed on to them (`graph.passed_call`).
-- Without edits it is empty.
-- One row per scenario, recorded call and GPU op.
-- Key: scenario, call_id, gpu_op_id.
CREATE TABLE prediction.removed_mark (
    -- The scenario.
    scenario,
    -- The trace.
    trace_id,
    -- The call.
    call_id,
    -- The GPU op.
    gpu_op_id
) AS
WITH RECURSIVE
passed AS MATERIALIZED (
    FROM graph.passed_call
),

-- What still passes on to which call.
walk AS (
    SELECT scenario, call_id, call_id AS marked_by, 0 AS streams
    FROM (SELECT DISTINCT scenario, trace_id FROM prediction.removed_call)
    INNER JOIN graph.recorded_mark USING (trace_id)
    ANTI JOIN prediction.removed_call USING (scenario, call_id)
    WHERE is_passed
    UNION
    SELECT walk.scenario, walk.call_id, passed_call_id, streams + 1
    FROM walk
    INNER JOIN passed ON marked_by = passed.call_id
    ANTI JOIN prediction.removed_call AS removed
        ON walk.scenario = removed.scenario AND passed_call_id = removed.call_id
    WHERE streams < 4
),

kept AS (
    SELECT DISTINCT scenario, walk.call_id, gpu_op_id
    FROM walk
    INNER JOIN graph.recorded_wait AS wait ON marked_by = wait.call_id
)

SELECT scenario, trace_id, call_id, mark.gpu_op_id
FROM (SELECT DISTINCT scenario, trace_id FROM prediction.removed_call)
INNER JOIN graph.recorded_mark AS mark USING (trace_id)
LEFT JOIN prediction.removed_call AS removed USING (scenario, trace_id, call_id)
ANTI JOIN kept USING (scenario, call_id, gpu_op_id)
WHERE removed.call_id IS NOT NULL OR is_passed;
