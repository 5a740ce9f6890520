-- Predicted time of GPU work: that of a kernel model where one of such an op on such
-- hardware has been applied to the database (`tracedb kernels apply`), else by the
-- roofline, which did better on real traces than models of other ops, of other hardware,
-- or measured with their launches. Where the user has calibrated
-- them on a trace (`tracedb kernels calibrate`), it is times `scale`, plus `offset_ns`;
-- else nothing here is learnt from the trace's own times. Constants fitted on a trace alone
-- count before those fitted on all traces of the hardware. Never calibrated are
-- collectives, whose kernels wait for other ranks, and copies: links are the host's.
-- What is not calibrated has a band as wide as harnesses differ, in the data of the model.
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
    -- [ns] The same before calibration.
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
    -- Whether constants fitted on a trace are applied.
    is_calibrated
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
        coalesce(estimate.predicted_ns, roofline_ns) AS predicted_ns,
        coalesce(estimate.low_ns, roofline.low_ns) AS low_ns,
        coalesce(estimate.high_ns, roofline.high_ns) AS high_ns,
        coalesce(harness_factor, 1) AS harness_factor,
        coalesce(estimate.model, 'roofline') AS model,
        CASE WHEN estimate.gpu_op_id IS NULL THEN 'roofline' ELSE 'model' END AS basis,
        coalesce(estimate.in_range, roofline.in_range) AS in_range
    FROM prediction.kernel_roofline AS roofline
    LEFT JOIN reference.kernel_estimate AS estimate
        ON roofline.gpu_op_id = estimate.gpu_op_id AND likeness = 'alike'
),

fitted AS (
    SELECT DISTINCT ON (trace.trace_id, hardware, basis)
        trace.trace_id, hardware, basis, scale, offset_ns
    FROM staging.trace AS trace
    INNER JOIN reference.calibration AS calibration
        ON trace.trace_id = coalesce(calibration.trace_id, trace.trace_id)
    WHERE is_applied
    ORDER BY calibration.trace_id NULLS LAST
)

SELECT
    gpu_op_id,
    run_id,
    chosen.trace_id,
    op_id,
    chosen.hardware,
    family,
    round(greatest(coalesce(scale, 1) * predicted_ns + coalesce(offset_ns, 0), 1))::BIGINT,
    predicted_ns,
    CASE
        WHEN scale IS NULL THEN round(greatest(least(low_ns, predicted_ns / harness_factor), 1))
        ELSE round(greatest(scale * low_ns + offset_ns, 1))
    END::BIGINT,
    CASE
        WHEN scale IS NULL THEN round(greatest(high_ns, predicted_ns * harness_factor))
        ELSE round(greatest(scale * high_ns + offset_ns, 1))
    END::BIGINT,
    model,
    chosen.basis,
    in_range,
    scale IS NOT NULL
FROM chosen
LEFT JOIN fitted
    ON
        chosen.trace_id = fitted.trace_id
        AND chosen.hardware = fitted.hardware
        AND chosen.basis = fitted.basis
        AND family NOT IN ('collective', 'memcpy');
