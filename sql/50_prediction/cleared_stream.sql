-- How much of each stream is removed in scenarios that fuse work, or capture it as a graph.
-- One row per scenario and GPU op that it removes.
-- Key: scenario, gpu_op_id.
CREATE VIEW prediction.cleared_stream (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- The trace.
    trace_id,
    -- Its device.
    device,
    -- Its stream.
    stream,
    -- Its position there.
    position,
    -- Amount removed on the stream up to it.
    gone_count
) AS
SELECT
    scenario,
    gpu_op_id,
    trace_id,
    device,
    stream,
    work.position,
    count(*) OVER (
        PARTITION BY scenario, trace_id, device, stream ORDER BY work.position
    )
FROM (
    SELECT DISTINCT scenario FROM prediction.scenario_edit WHERE action IN ('fuse', 'graph')
)
INNER JOIN prediction.work_edit AS edit USING (scenario)
INNER JOIN graph.stream_position AS work USING (gpu_op_id)
WHERE is_removed;
