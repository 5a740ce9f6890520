-- When each piece of GPU work begins and ends in the simulation.
-- One row per rung and piece of GPU work.
-- Key: rung, kernel_id.
CREATE VIEW critical_path.gpu_work_time (
    -- The rung, as in `prediction.rung`.
    rung,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The GPU work.
    kernel_id,
    -- [ns] Begin, from the begin of the trace.
    start_ns,
    -- [ns] End, from the begin of the trace.
    end_ns
) AS
SELECT
    gpu.rung,
    run_id,
    gpu.trace_id,
    kernel_id,
    greatest(stream.begin_ns + after_stream_ns, host.begin_ns + after_host_ns)
    - predicted_ns,
    greatest(stream.begin_ns + after_stream_ns, host.begin_ns + after_host_ns)
FROM critical_path.gpu_offset AS gpu
INNER JOIN critical_path.segment_time AS stream
    ON
        gpu.rung = stream.rung
        AND gpu.trace_id = stream.trace_id
        AND gpu.lane = stream.lane
        AND gpu.segment = stream.segment
INNER JOIN critical_path.segment_time AS host
    ON
        gpu.rung = host.rung
        AND gpu.trace_id = host.trace_id
        AND gpu.host_lane = host.lane
        AND gpu.host_segment = host.segment;
