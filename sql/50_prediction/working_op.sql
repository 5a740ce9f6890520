-- The ops whose work is stored: those that launch GPU work and, for a prediction of
-- computation on the host, those as well (`prediction.computing_op`).
-- One row per op.
-- Key: op_id.
CREATE VIEW prediction.working_op (
    -- The op.
    op_id,
    -- The trace.
    trace_id
) AS
SELECT DISTINCT op_id, trace_id
FROM staging.gpu_op
WHERE op_id IS NOT NULL;
