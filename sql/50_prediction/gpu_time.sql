-- Predicted duration of every piece of GPU work, and the delays after what it waits for.
-- Replay and statistics take measured durations, full takes those of the kernel models;
-- work without a model, and collectives (which wait for other ranks), stay as measured.
-- One row per rung and piece of GPU work.
-- Key: rung, kernel_id.
CREATE TABLE prediction.gpu_time (
    -- `replay`, `statistics` or `full`.
    rung,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The GPU work.
    kernel_id,
    -- [ns] Duration.
    predicted_ns,
    -- [ns] Delay after the begin of its launch; in replay with what the launch held it back.
    launch_delay_ns,
    -- [ns] Delay after the end of the work before it on its stream.
    stream_delay_ns,
    -- GPU work of another stream whose end it waits for.
    awaited_kernel_id,
    -- [ns] Delay after that.
    wait_delay_ns,
    -- [ns] Part of the measured start that no cause explains.
    unexplained_ns
) AS
WITH
measured AS (
    SELECT
        work.*,
        stream_wait.awaited_kernel_id,
        held_ns,
        after_launch_ns - launch_start_ns - held_ns AS launch_delay_ns,
        CASE
            -- Work that overlaps the work before it (programmatic dependent launch).
            WHEN work.start_ns < previous_end_ns THEN work.start_ns - previous_end_ns
            ELSE coalesce(after_stream_ns - previous_end_ns, 0)
        END AS stream_delay_ns,
        coalesce(waiting.median_ns, 0) AS wait_delay_ns,
        greatest(
            work.start_ns - greatest(
                launch_limit_ns,
                stream_limit_ns,
                awaited_end_ns + coalesce(waiting.cap_ns, 0)
            ),
            0
        ) AS unexplained_ns
    FROM graph.stream_position AS work
    INNER JOIN graph.usual_start USING (kernel_id)
    LEFT JOIN graph.stream_wait USING (kernel_id)
    LEFT JOIN prediction.delay AS waiting
        ON
            work.trace_id = waiting.trace_id
            AND work.kind = waiting.kind
            AND waiting.cause
            = CASE stream_wait.reason WHEN 'event' THEN 'stream_wait' ELSE 'occupancy' END
)

SELECT
    rung.rung,
    measured.run_id,
    measured.trace_id,
    measured.kernel_id,
    CASE
        WHEN rung.rung = 'full' AND NOT work.is_collective
            THEN coalesce(model.predicted_ns, measured.end_ns - measured.start_ns)
        ELSE measured.end_ns - measured.start_ns
    END AS predicted_ns,
    coalesce(launch_delay_ns + CASE rung.rung WHEN 'replay' THEN held_ns ELSE 0 END, 0),
    stream_delay_ns,
    awaited_kernel_id,
    wait_delay_ns,
    CASE WHEN measured.launch_id IS NULL THEN 0 ELSE unexplained_ns END AS unexplained_ns
FROM measured
INNER JOIN staging.kernel AS work ON measured.kernel_id = work.kernel_id
LEFT JOIN prediction.kernel_time AS model ON measured.kernel_id = model.kernel_id
CROSS JOIN (VALUES ('replay'), ('statistics'), ('full')) AS rung (rung);
