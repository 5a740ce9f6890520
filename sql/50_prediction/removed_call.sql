-- Recorded calls that make streams wait and that scenarios remove, with the waits of GPU
-- work. A call after which no work is launched on its stream has no wait to select: it goes
-- with all waits of its stream or, if that has none, of the trace.
-- Without edits it is empty.
-- One row per scenario and call.
-- Key: scenario, call_id.
CREATE TABLE prediction.removed_call (
    -- The scenario.
    scenario,
    -- The trace.
    trace_id,
    -- The call.
    call_id
) AS
WITH
chosen AS (
    SELECT DISTINCT scenario, gpu_op_id, awaited_gpu_op_id
    FROM prediction.chosen_wait
    WHERE target = 'wait'
),

-- Streams whose waits a scenario removes, and whether it keeps some.
touched AS (
    SELECT
        every.scenario, work.trace_id, work.device, work.stream,
        bool_or(chosen.gpu_op_id IS NULL) AS keeps
    FROM (SELECT DISTINCT scenario FROM chosen) AS every
    CROSS JOIN graph.gpu_awaited AS awaited
    INNER JOIN graph.stream_position AS work ON awaited.gpu_op_id = work.gpu_op_id
    LEFT JOIN chosen
        ON
            every.scenario = chosen.scenario
            AND awaited.gpu_op_id = chosen.gpu_op_id
            AND awaited.awaited_gpu_op_id = chosen.awaited_gpu_op_id
    GROUP BY every.scenario, work.trace_id, work.device, work.stream
),

traced AS (
    SELECT scenario, trace_id, bool_or(keeps) AS keeps
    FROM touched
    GROUP BY scenario, trace_id
)

SELECT DISTINCT scenario, trace_id, wait.call_id
FROM chosen
INNER JOIN graph.recorded_wait AS wait
    ON chosen.gpu_op_id = held_gpu_op_id AND awaited_gpu_op_id = wait.gpu_op_id
UNION ALL
SELECT traced.scenario, wait.trace_id, wait.call_id
FROM graph.recorded_wait AS wait
INNER JOIN traced USING (trace_id)
LEFT JOIN touched
    ON
        traced.scenario = touched.scenario
        AND wait.trace_id = touched.trace_id
        AND wait.device = touched.device
        AND wait.stream = touched.stream
WHERE target = 'stream_wait' AND held_gpu_op_id IS NULL AND NOT coalesce(touched.keeps, traced.keeps);
