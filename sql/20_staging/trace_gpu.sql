-- The GPU model of a trace: that of its first device.
-- One row per trace that names one.
-- Key: trace_id.
CREATE VIEW staging.trace_gpu (
    -- The trace.
    trace_id,
    -- Name of the GPU.
    gpu
) AS
SELECT trace_id, any_value(name ORDER BY device) AS gpu
FROM staging.device
GROUP BY trace_id
HAVING gpu IS NOT NULL;
