-- When host and GPU finished each step, as measured, and its period: from when both had
-- finished the previous step on its thread to when both had finished it. The first step of
-- a thread counts from the start of its mark. If the GPU finished an earlier step later (on
-- other streams), the period starts then; so periods are contiguous, whatever lies between
-- two marks.
-- One row per step that takes time.
-- Key: step_id.
CREATE VIEW graph.step_period (
    -- Step.
    step_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of the step.
    step,
    -- Host thread of its mark.
    thread_id,
    -- [ns] Start of the period.
    start_ns,
    -- [ns] End of the period.
    end_ns,
    -- The GPU work of the step that ended last; NULL without any.
    last_gpu_op_id
) AS
WITH
done AS (
    SELECT
        *,
        max(greatest(end_ns, gpu_end_ns)) OVER (
            PARTITION BY thread_id ORDER BY start_ns, step_id ROWS UNBOUNDED PRECEDING
        ) AS done_ns
    FROM staging.step
    WHERE end_ns > start_ns
),

last AS (
    SELECT step_id, max(gpu_op_id) AS last_gpu_op_id
    FROM staging.step
    INNER JOIN staging.step_work USING (step_id)
    INNER JOIN staging.gpu_op USING (gpu_op_id)
    WHERE gpu_op.end_ns = gpu_end_ns
    GROUP BY step_id
)

SELECT
    done.step_id,
    run_id,
    trace_id,
    step,
    thread_id,
    coalesce(
        lag(done_ns) OVER (PARTITION BY thread_id ORDER BY start_ns, done.step_id),
        start_ns
    ),
    done_ns,
    last_gpu_op_id
FROM done
LEFT JOIN last ON done.step_id = last.step_id;
