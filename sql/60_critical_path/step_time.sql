-- The per-batch training time: each step as measured and as predicted by each method. It is
-- the step's period (`critical_path.step_period`), with the times of the host alone and of
-- the GPU next to it.
-- One row per scenario, method and whole step (`staging.whole_step`).
-- Key: scenario, method, step_id.
CREATE VIEW critical_path.step_time (
    -- The scenario; `baseline` has no edits.
    scenario,
    -- The method, as in `prediction.method`.
    method,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Measured period: from when host and GPU had both finished the previous step to
    -- when both had finished this one. It equals the time of the step's mark if each step
    -- waits for its GPU work and the marks are contiguous.
    measured_ns,
    -- [ns] Predicted period.
    predicted_ns,
    -- [1] Predicted divided by measured period, minus 1; NULL for scenarios with edits.
    error_share,
    -- [ns] Measured host time: the time of the step's mark.
    measured_host_ns,
    -- [ns] Predicted host time.
    predicted_host_ns,
    -- [ns] Measured GPU end: from the start of the mark to the end of the GPU work launched
    -- in the step; NULL without any.
    measured_gpu_end_ns,
    -- [ns] Predicted GPU end.
    predicted_gpu_end_ns,
    -- [1] Share of the step's host time, excluding waits, that the prediction takes as
    -- measured: all of it in replay, otherwise that of spans without similar ones.
    as_measured_share,
    -- [ns] Measured delay without a cause, on the step's thread during its mark and for GPU
    -- work in its period, whenever launched; the prediction excludes it, except for the
    -- part that it keeps.
    unexplained_ns,
    -- [ns] The part of it that the prediction keeps as measured, without computing it,
    -- because more than 5 % of the step's mark has no cause
    -- (`prediction.unexplained_step`).
    kept_ns
) AS
WITH
timed AS (
    SELECT
        variant_id,
        step_id,
        end_ns - start_ns AS predicted_ns,
        host_end_ns - host_start_ns AS host_ns,
        gpu_end_ns - host_start_ns AS gpu_ns
    FROM critical_path.step_period
    WHERE variant_id > 0
    UNION ALL
    SELECT variant_id, step_id, predicted_ns, host_ns, gpu_end_ns
    FROM critical_path.lin2022_time
    INNER JOIN prediction.variant USING (method)
    WHERE scenario = 'baseline'
),

-- As measured.
measured AS (
    SELECT *
    FROM critical_path.step_period
    SEMI JOIN staging.whole_step USING (step_id)
    WHERE variant_id = 0
),

as_measured AS (
    SELECT
        step_id,
        variant_id,
        sum(CASE WHEN alike IS NULL THEN sample_ns ELSE 0 END) / sum(sample_ns) AS share
    FROM overhead.sample
    INNER JOIN prediction.host_time USING (thread_id, position)
    GROUP BY ALL
    HAVING sum(sample_ns) > 0
),

host_unexplained AS (
    SELECT step.step_id, variant_id, sum(unexplained_ns) AS unexplained_ns
    FROM staging.step
    INNER JOIN overhead.interval
        ON step.step_id = interval.step_id AND step.thread_id = interval.thread_id
    INNER JOIN prediction.host_time AS time
        ON interval.thread_id = time.thread_id AND interval.position = time.position
    GROUP BY ALL
),

-- Periods by the clock of the trace.
period AS (
    SELECT
        step_id,
        trace_id,
        start_ns + origin_ns AS start_ns,
        end_ns + origin_ns AS end_ns
    FROM measured
    INNER JOIN simulation.origin USING (trace_id)
),

gpu_unexplained AS (
    SELECT
        step.step_id,
        variant_id,
        sum(
            least(work.start_ns, step.end_ns)
            - greatest(work.start_ns - unexplained_ns, step.start_ns)
        ) AS unexplained_ns
    FROM period AS step
    INNER JOIN graph.stream_position AS work
        ON
            step.trace_id = work.trace_id
            AND step.start_ns < work.start_ns
            AND step.end_ns > work.launch_start_ns
    INNER JOIN prediction.gpu_time AS time
        ON
            work.gpu_op_id = time.gpu_op_id
            AND step.end_ns > work.start_ns - unexplained_ns
    WHERE unexplained_ns > 0
    GROUP BY ALL
)

SELECT
    scenario,
    method,
    step.run_id,
    step.trace_id,
    step.step_id,
    step.step,
    measured.end_ns - measured.start_ns AS measured_ns,
    predicted_ns,
    CASE scenario
        WHEN 'baseline' THEN predicted_ns / nullif(measured_ns, 0) - 1
    END,
    host_end_ns - host_start_ns,
    host_ns,
    measured.gpu_end_ns - host_start_ns,
    gpu_ns,
    as_measured.share,
    (
        coalesce(host_unexplained.unexplained_ns, 0)
        + coalesce(gpu_unexplained.unexplained_ns, 0)
    )::BIGINT,
    CASE WHEN is_simulated THEN coalesce(unexplained.host_delay_ns + unexplained.gpu_delay_ns, 0) ELSE 0 END
FROM timed
INNER JOIN measured USING (step_id)
INNER JOIN staging.step AS step ON timed.step_id = step.step_id
INNER JOIN prediction.variant AS variant ON timed.variant_id = variant.variant_id
LEFT JOIN prediction.unexplained_step AS unexplained ON timed.step_id = unexplained.step_id
LEFT JOIN as_measured
    ON
        variant.variant_id = as_measured.variant_id
        AND timed.step_id = as_measured.step_id
LEFT JOIN host_unexplained
    ON
        variant.variant_id = host_unexplained.variant_id
        AND timed.step_id = host_unexplained.step_id
LEFT JOIN gpu_unexplained
    ON
        variant.variant_id = gpu_unexplained.variant_id
        AND timed.step_id = gpu_unexplained.step_id
ORDER BY variant.variant_id, step.step_id;
