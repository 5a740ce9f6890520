-- Measured time of GPU work, and its prediction without the trace's times: all kernels of
-- an op together, copies and memsets individually. If a model has estimated it, there are
-- two rows, because the roofline can be closer in a trace. Excluded are collectives, whose
-- kernels wait for other ranks, and work that took no time.
-- One row per problem and basis.
-- Key: problem_id, basis.
CREATE VIEW prediction.kernel_sample (
    -- The op, or the copy or memset.
    problem_id,
    -- The trace.
    trace_id,
    -- Row of `prediction.hardware`.
    hardware,
    -- The predictor: the `roofline`, or a `model`.
    basis,
    -- Family.
    family,
    -- Name of the op; for a copy, what it goes through, and its direction.
    op,
    -- Digest of family, op, tensors and values; of a copy, with its bytes.
    shape_key,
    -- What its own prediction may not learn from: its step, if the GPU works in several;
    -- otherwise itself.
    left_out_id,
    -- Binary logarithm of the predicted time [ns], rounded; of one attempt if cuDNN tries
    -- several algorithms, so that they learn from the others of their shape.
    octave,
    -- Logarithm of measured divided by predicted time.
    log_ratio
) AS
WITH
step AS (
    SELECT
        trace_id,
        gpu_op_id,
        min(step_id) AS step_id,
        min(min(step_id)) OVER (PARTITION BY trace_id)
        < max(max(step_id)) OVER (PARTITION BY trace_id) AS are_several
    FROM staging.step_work
    GROUP BY trace_id, gpu_op_id
),

problem AS (
    SELECT
        problem_id,
        roofline.trace_id,
        hardware,
        roofline.family,
        min(CASE WHEN kind <> 'kernel' THEN link || ' ' || staging.copy_direction(name) END)
        AS copied,
        min(CASE WHEN kind <> 'kernel' THEN traffic_bytes END) AS copied_bytes,
        min(CASE WHEN are_several THEN step_id END) AS step_id,
        sum(work.end_ns - work.start_ns) AS measured_ns,
        max(attempts) AS attempts,
        sum(roofline_ns) AS roofline,
        CASE WHEN count(estimate.predicted_ns) = count(*) THEN sum(estimate.predicted_ns) END
        AS model
    FROM prediction.kernel_roofline AS roofline
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
    LEFT JOIN step ON roofline.gpu_op_id = step.gpu_op_id
    LEFT JOIN reference.kernel_estimate AS estimate
        ON roofline.gpu_op_id = estimate.gpu_op_id AND likeness IN ('alike', 'transferred')
    WHERE roofline.family <> 'collective'
    GROUP BY problem_id, roofline.trace_id, hardware, roofline.family
    HAVING measured_ns > 0
),

based AS (
    UNPIVOT problem ON roofline, model INTO NAME basis VALUE predicted_ns
)

SELECT
    problem_id,
    based.trace_id,
    hardware,
    basis,
    family,
    coalesce(copied, name, '') AS op,
    hash(family, op, copied_bytes, tensors, concrete_inputs),
    coalesce(step_id, problem_id),
    round(log2(greatest(predicted_ns / attempts, 1)))::BIGINT,
    ln(measured_ns / greatest(predicted_ns, 1))
FROM based
LEFT JOIN prediction.op_shape AS shape ON problem_id = shape.op_id;
