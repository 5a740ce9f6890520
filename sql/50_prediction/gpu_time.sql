-- Predicted duration of every piece of GPU work, and the delays after what it waits for.
-- Durations are as measured or, in full, those of the kernel models;
-- work without a model, and collectives stay as measured.
-- One row per rung and piece of GPU work.
-- Key: rung, kernel_id.
CREATE TABLE prediction.gpu_time (
    -- The rung, as in `prediction.rung`.
    rung,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The GPU work.
    kernel_id,
    -- [ns] Duration; of a collective of several ranks in the run from when all have begun.
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
SELECT
    rung.rung,
    delay.run_id,
    delay.trace_id,
    delay.kernel_id,
    CASE
        WHEN models_kernels AND NOT work.is_collective
            THEN coalesce(model.predicted_ns, work.end_ns - work.start_ns)
        ELSE coalesce(absent_waiting_ns + moving_ns, work.end_ns - work.start_ns)
    END AS predicted_ns,
    launch_delay_ns + CASE rung.rung WHEN 'replay' THEN held_ns ELSE 0 END,
    stream_delay_ns,
    awaited_kernel_id,
    wait_delay_ns,
    unexplained_ns
FROM prediction.gpu_delay AS delay
INNER JOIN staging.kernel AS work ON delay.kernel_id = work.kernel_id
LEFT JOIN graph.collective AS collective ON delay.kernel_id = collective.kernel_id
LEFT JOIN prediction.kernel_time AS model ON delay.kernel_id = model.kernel_id
INNER JOIN prediction.rung AS rung ON is_simulated;
