-- Predicted time of GPU work. The base is a kernel model, if one for the op on this
-- hardware, or on related hardware, has been applied to the database (`tracedb kernels
-- apply`; `reference.kernel_estimate` says what it is for), otherwise the roofline. It is
-- multiplied by the trace's calibration factor (`prediction.kernel_factor`), learned from
-- its other steps or, in a trace with one step, from its other ops, never from the time
-- being predicted. If the trace shows that the roofline is closer than the model, the
-- roofline is used. Collectives are not calibrated, because their kernels wait for other
-- ranks. The band is as wide as the errors of similarly calibrated work in the trace; if
-- there are fewer than five, it is the band of the model or the roofline, which for a model
-- includes differences between harnesses.
-- One row per GPU op that has a model.
-- Key: gpu_op_id.
CREATE VIEW prediction.kernel_time (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The op that launched it.
    op_id,
    -- Row of `prediction.hardware`.
    hardware,
    -- Family, see `prediction.kernel_efficiency`.
    family,
    -- [ns] Predicted duration.
    predicted_ns,
    -- [ns] The same without calibration by the trace.
    uncalibrated_ns,
    -- [ns] Lower end of its band.
    low_ns,
    -- [ns] Upper end of its band.
    high_ns,
    -- The predictor: `roofline`, or the name of the model.
    model,
    -- The kind of predictor: `model` or `roofline`.
    basis,
    -- Whether the shape is within the model's training range; for the roofline, whether
    -- shape, type and hardware are known rather than assumed.
    in_range,
    -- Whether other work of the trace, or of other databases, has calibrated the factor.
    is_calibrated,
    -- The closest source of calibration: `shape`, `size` (work of the same op with a
    -- similar duration), `op`, `family`, `trace`; `none`.
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
