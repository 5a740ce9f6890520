-- What does GPU work take that a scenario puts on another GPU, to another type or to another
-- batch size, and how is that known? Measured time times what a model predicts there over what
-- it predicts here.
-- One row per scenario, run, name of GPU work, family and basis; a database at rest has no
-- scenarios (`tracedb whatif --rows kernel`).
-- Key: scenario, run_id, change, recorded_batch, sizes_from, name, family, basis, in_range.
CREATE VIEW question.scenario_kernel (
    -- The scenario.
    scenario,
    -- The run.
    run_id,
    -- What is changed of it, as `gpu=H200 dtype=bf16 batch=4096`.
    change,
    -- The batch size that it was recorded with; NULL where another one is not asked for.
    recorded_batch,
    -- What tells how sizes follow the batch: the same ops in other `runs`, or `inferred` from
    -- what its own ops do, or likewise with the recorded batch size `given`.
    sizes_from,
    -- Name.
    name,
    -- Family, see `prediction.kernel_efficiency`; `unknown` where the work is.
    family,
    -- What tells the change: a `model` of such ops that was trained for both, the `roofline`
    -- of both, the `bandwidth` of both memories where the work is unknown, or there the
    -- `size` of its tensors; `unchanged` where nothing changes, or nothing tells; `unknown`
    -- where it is not known how it follows the batch.
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
    recorded_batch,
    sizes_from,
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
ORDER BY scenario, run_id, changed_ns DESC, name, change, recorded_batch, sizes_from, family,
    basis, in_range;
