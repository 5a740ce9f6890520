-- How much of the time of GPU work do the kernel models predict?
-- One row per trace and family.
-- Key: trace_id, family.
-- Counts: staging.gpu_op.
CREATE VIEW question.kernel_coverage (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Family of GPU work; `unknown` if the op, its shape or its launch is.
    family,
    -- GPU ops.
    gpu_op_count,
    -- [ns] Time that they took.
    time_ns,
    -- [1] Share of the time of all GPU work in the trace.
    time_share,
    -- [1] Share of the family's time predicted by a trained model.
    model_share,
    -- [1] Share predicted by the roofline.
    roofline_share,
    -- [1] Share calibrated by other work of the trace, or of other databases.
    calibrated_share,
    -- [1] Share predicted for a shape, type or GPU that is partly assumed, because it was
    -- not recorded, or is outside of what the model was trained on.
    assumed_share,
    -- [1] Share that is not predicted.
    uncovered_share
) AS
WITH
work AS (
    SELECT
        gpu_op.run_id,
        gpu_op.trace_id,
        coalesce(family, 'unknown') AS family,
        coalesce(basis, 'none') AS basis,
        coalesce(is_calibrated, false) AS is_calibrated,
        coalesce(NOT in_range, false) AS is_assumed,
        end_ns - start_ns AS measured_ns
    FROM staging.gpu_op AS gpu_op
    LEFT JOIN prediction.kernel_time USING (gpu_op_id)
    WHERE kind <> 'other'
)

SELECT
    work.run_id,
    trace_id,
    rank,
    family,
    count(*),
    sum(measured_ns)::BIGINT AS time_ns,
    coalesce(time_ns / nullif(sum(time_ns) OVER (PARTITION BY trace_id), 0), 0),
    coalesce(sum(measured_ns) FILTER (basis = 'model') / nullif(time_ns, 0), 0),
    coalesce(sum(measured_ns) FILTER (basis = 'roofline') / nullif(time_ns, 0), 0),
    coalesce(sum(measured_ns) FILTER (is_calibrated) / nullif(time_ns, 0), 0),
    coalesce(sum(measured_ns) FILTER (is_assumed) / nullif(time_ns, 0), 0),
    coalesce(sum(measured_ns) FILTER (basis = 'none') / nullif(time_ns, 0), 0)
FROM work
INNER JOIN staging.trace AS trace USING (trace_id)
GROUP BY work.run_id, trace_id, rank, family
ORDER BY work.run_id, trace_id, time_ns DESC, family;
