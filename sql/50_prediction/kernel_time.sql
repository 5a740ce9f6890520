-- Predicted time of GPU work: that of a kernel model where one of such an op on such
-- hardware, or on relatives of it, has been applied to the database (`tracedb kernels apply`;
-- `reference.kernel_estimate` says of what it is), else by the roofline; times the factor that the trace teaches (`prediction.kernel_factor`): from its
-- other steps, or where it has but one from its other ops, never from the time of the work
-- itself. Where the trace shows that the roofline is nearer than the model, it serves.
-- Nothing is learnt of collectives, whose kernels wait for other ranks.
-- The band is as wide as others in the trace that learnt in the same way are off; where
-- less than five have, it is that of the model or the roofline, in which of the model is
-- how harnesses differ.
-- One row per GPU op that has a model.
-- Key: gpu_op_id.
CREATE VIEW prediction.kernel_time (
    -- The GPU op.
    gpu_op_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Op that launched it.
    op_id,
    -- Row of `prediction.hardware`.
    hardware,
    -- Family, see `prediction.kernel_efficiency`.
    family,
    -- [ns] Predicted duration.
    predicted_ns,
    -- [ns] The same without what the trace teaches.
    uncalibrated_ns,
    -- [ns] Lower end of its band.
    low_ns,
    -- [ns] Upper end of its band.
    high_ns,
    -- What predicted it: `roofline`, or the name of the model.
    model,
    -- Of which kind that is: `model` or `roofline`.
    basis,
    -- Whether the shape is of those that the model was trained on; of the roofline, whether
    -- shape, type and hardware are known rather than assumed.
    in_range,
    -- Whether other work of the trace, or of other databases, has taught a factor.
    is_calibrated,
    -- The nearest that has: `shape`, `size` (work of the same op about as long), `op`,
    -- `family`, `trace`; `none`.
    learnt_from
) AS
WITH
chosen AS (
    SELECT
        roofline.gpu_op_id,
        roofline.run_id,
        roofline.trace_id,
        op_id,
        hardware,
        family,
        estimate.gpu_op_id IS NOT NULL AND factor.basis IS DISTINCT FROM 'roofline' AS is_model,
        coalesce(factor, 1) AS factor,
        spread_factor,
        coalesce(learnt_from, 'none') AS learnt_from,
        coalesce(estimate.predicted_ns, roofline_ns) AS uncalibrated_ns,
        CASE WHEN is_model THEN estimate.predicted_ns ELSE roofline_ns END AS base_ns,
        CASE
            WHEN is_model THEN least(estimate.low_ns, estimate.predicted_ns / harness_factor)
            ELSE roofline.low_ns
        END AS low_ns,
        CASE
            WHEN is_model THEN greatest(estimate.high_ns, estimate.predicted_ns * harness_factor)
            ELSE roofline.high_ns
        END AS high_ns,
        CASE WHEN is_model THEN estimate.model ELSE 'roofline' END AS model,
        CASE WHEN is_model THEN estimate.in_range ELSE roofline.in_range END AS in_range
    FROM prediction.kernel_roofline AS roofline
    LEFT JOIN reference.kernel_estimate AS estimate
        ON roofline.gpu_op_id = estimate.gpu_op_id AND likeness IN ('alike', 'transferred')
    LEFT JOIN prediction.kernel_factor AS factor
        ON
            roofline.problem_id = factor.problem_id
            AND roofline.trace_id = factor.trace_id
            AND family <> 'collective'
)

SELECT
    gpu_op_id,
    run_id,
    trace_id,
    op_id,
    hardware,
    family,
    round(greatest(factor * base_ns, 1))::BIGINT,
    uncalibrated_ns,
    round(greatest(
        CASE WHEN spread_factor IS NULL THEN factor * low_ns ELSE factor * base_ns / spread_factor END,
        1
    ))::BIGINT,
    round(greatest(
        CASE WHEN spread_factor IS NULL THEN factor * high_ns ELSE factor * base_ns * spread_factor END,
        1
    ))::BIGINT,
    model,
    CASE WHEN is_model THEN 'model' ELSE 'roofline' END,
    in_range,
    learnt_from <> 'none',
    learnt_from
FROM chosen;
