-- What does GPU work take that a scenario puts on another GPU, or to another type, and how
-- is that known? Measured time times what a model predicts there over what it predicts here.
-- One row per scenario, run, name of GPU work, family and basis; a database at rest has no
-- scenarios (`tracedb whatif --rows kernel`).
-- Key: scenario, run_id, change, name, family, basis, in_range.
CREATE VIEW question.scenario_kernel (
    -- The scenario.
    scenario,
    -- The run.
    run_id,
    -- What is changed of it, as `gpu=H200 dtype=bf16`.
    change,
    -- Name.
    name,
    -- Family, see `prediction.kernel_efficiency`; `unknown` where the work is.
    family,
    -- What tells the change: a `model` of such ops that was trained for both, the `roofline`
    -- of both, the `bandwidth` of both memories where the work is unknown; `unchanged` where
    -- nothing does.
    basis,
    -- Whether shapes, types and hardware are known, and of models among what they learnt from.
    in_range,
    -- GPU ops.
    gpu_op_count,
    -- [ns] What they took; collectives from when all ranks have begun.
    measured_ns,
    -- [ns] What they take then, other edits of the scenario apart.
    changed_ns,
    -- [ns] Lower end of its band: four of five kernels are within, each by itself.
    low_ns,
    -- [ns] Upper end.
    high_ns
) AS
SELECT
    scenario,
    run_id,
    change,
    name,
    family,
    basis,
    in_range,
    count(*),
    sum(measured_ns)::BIGINT,
    sum(round(measured_ns * ratio))::BIGINT AS changed_ns,
    sum(round(measured_ns * low_ratio))::BIGINT,
    sum(round(measured_ns * high_ratio))::BIGINT
FROM prediction.changed_time
INNER JOIN staging.gpu_op USING (gpu_op_id, trace_id)
GROUP BY ALL
ORDER BY scenario, run_id, changed_ns DESC, name, change, family, basis, in_range;
