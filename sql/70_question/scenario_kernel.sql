-- How long does GPU work take with another GPU, type, batch size or number of ranks, and
-- what is that based on? Measured time multiplied by a model's prediction for the target
-- over its prediction for the source.
-- One row per scenario, run, name of GPU work, family and basis; empty unless scenarios are
-- requested (`tracedb whatif --rows kernel`).
-- Key: scenario, run_id, change, recorded_batch, sizes_from, name, family, basis, in_range.
-- Counts: staging.gpu_op.
CREATE VIEW question.scenario_kernel (
    -- The scenario.
    scenario,
    -- The run.
    run_id,
    -- The change, such as `gpu=H200 dtype=bf16 batch=4096`.
    change,
    -- The recorded batch size; NULL unless another one is requested.
    recorded_batch,
    -- How it is known which sizes scale with the batch: from the same ops in other `runs`,
    -- `inferred` from the recording's own ops, or likewise with the recorded batch size
    -- `given`.
    sizes_from,
    -- Name.
    name,
    -- Family, see `prediction.kernel_efficiency`; `unknown` if the work is.
    family,
    -- Basis of the change: a `model` of such ops trained for both, the `roofline` of both,
    -- the `bandwidth` of both memories if the work is unknown, or then the `size` of its
    -- tensors; `unchanged` if nothing changes, or nothing is known; `unknown` if it is not
    -- known how it scales with the batch.
    basis,
    -- Whether shapes, types and hardware are known and, for models, within their training
    -- range.
    in_range,
    -- GPU ops.
    gpu_op_count,
    -- [ns] Their measured time; for collectives, from when all ranks have started.
    measured_ns,
    -- [ns] Their predicted time, without other edits of the scenario.
    changed_ns,
    -- [ns] Lower end of the band: four of five kernels lie inside, each taken by itself.
    low_ns,
    -- [ns] Upper end of the band.
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
