-- When each GPU op starts and ends in the simulation.
-- One row per variant and GPU op.
-- Key: variant_id, gpu_op_id.
CREATE VIEW simulation.gpu_work_time (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- [ns] Start, from the start of the trace.
    start_ns,
    -- [ns] End, from the start of the trace.
    end_ns
) AS
WITH
begun AS (
    SELECT
        gpu.*,
        greatest(stream.begin_ns + after_stream_ns, host.begin_ns + after_host_ns)
        - predicted_ns AS start_ns
    FROM simulation.gpu_offset AS gpu
    INNER JOIN simulation.segment_time AS stream
        ON
            gpu.variant_id = stream.variant_id
            AND gpu.trace_id = stream.trace_id
            AND gpu.lane = stream.lane
            AND gpu.segment = stream.segment
    INNER JOIN simulation.segment_time AS host
        ON
            gpu.variant_id = host.variant_id
            AND gpu.trace_id = host.trace_id
            AND gpu.host_lane = host.lane
            AND gpu.host_segment = host.segment
),

-- A collective continues when all ranks have started.
complete AS (
    SELECT
        begun.variant_id,
        begun.gpu_op_id,
        CASE
            WHEN is_eager THEN start_ns
            ELSE max(start_ns + run_origin_ns)
                OVER (PARTITION BY begun.variant_id, last_node_id) - run_origin_ns
        END AS complete_ns
    FROM begun
    INNER JOIN graph.collective AS collective ON begun.gpu_op_id = collective.node_id
    INNER JOIN simulation.origin AS origin ON begun.trace_id = origin.trace_id
)

SELECT
    begun.variant_id,
    run_id,
    trace_id,
    begun.gpu_op_id,
    start_ns,
    coalesce(complete_ns, start_ns) + predicted_ns
FROM begun
LEFT JOIN complete
    ON begun.variant_id = complete.variant_id AND begun.gpu_op_id = complete.gpu_op_id;
