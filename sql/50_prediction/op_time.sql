-- Self time of ops that compute on the host, by name and work: the median of similar ones
-- (`prediction.computes_nothing` says which never compute). It exists for one prediction
-- (`reference.op_estimate`).
-- One row per trace, name and work.
-- Key: trace_id, name, flops, bytes.
CREATE VIEW prediction.op_time (
    -- The trace.
    trace_id,
    -- Name of the op.
    name,
    -- [FLOP] FLOPs.
    flops,
    -- Bytes read and written.
    bytes,
    -- Whether that is next to nothing: at most 4,096 of both.
    is_tiny,
    -- [ns] Its self time.
    own_ns
) AS
SELECT
    op.trace_id,
    name,
    flops,
    bytes,
    flops <= 4_096 AND bytes <= 4_096,
    round(median(own_ns))::BIGINT
FROM reference.op_estimate AS estimate
INNER JOIN prediction.computing_op AS op USING (op_id)
ANTI JOIN prediction.wrapping_op USING (op_id)
WHERE change = '' AND flops IS NOT NULL AND NOT prediction.computes_nothing(name)
GROUP BY ALL;
