-- Traces covered by `critical_path.run_slack`: of runs whose ranks meet on GPUs. If they
-- also meet on the CPU, their waits there are not known in this way.
-- One row per trace of such a run.
-- Key: trace_id.
CREATE VIEW critical_path.run_trace (
    -- The trace.
    trace_id,
    -- The run.
    run_id,
    -- [ns] Offset to add to its times to get times by the run's clock, as in `graph.clock`.
    shift_ns
) AS
WITH
meeting AS (
    SELECT run_id, bool_and(gpu_op_id IS NOT NULL) AS is_on_gpu
    FROM graph.collective
    LEFT JOIN (SELECT gpu_op_id FROM staging.gpu_op) AS work ON node_id = gpu_op_id
    GROUP BY run_id
)

SELECT trace_id, clock.run_id, shift_ns
FROM graph.clock AS clock
INNER JOIN meeting ON clock.run_id = meeting.run_id
WHERE is_on_gpu;
