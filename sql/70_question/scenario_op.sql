-- How long do ops that compute on the host take at another batch size, and what is that
-- based on? A fixed part, independent of the work, stays; the rest scales with their work.
-- One row per scenario, run, name of an op, family and basis; empty unless scenarios are
-- requested (`tracedb whatif --rows op`).
-- Key: scenario, run_id, change, recorded_batch, sizes_from, name, family, basis.
-- Counts: staging.op.
CREATE VIEW question.scenario_op (
    -- The scenario.
    scenario,
    -- The run.
    run_id,
    -- The change, such as `batch=4096`.
    change,
    -- The recorded batch size.
    recorded_batch,
    -- How it is known which sizes scale with the batch: from the same ops in other `runs`,
    -- `inferred` from the recording's own ops, or likewise with the recorded batch size
    -- `given`.
    sizes_from,
    -- Name.
    name,
    -- Family, as in `prediction.op_work`; `unknown` if the work is.
    family,
    -- Basis of the change: the `roofline` of both sizes or, if the work is unknown, the
    -- `size` of its tensors; `unchanged` if nothing changes; `unknown` if it is not known
    -- how it scales with the batch.
    basis,
    -- Ops.
    op_count,
    -- [ns] Their measured self time.
    own_ns,
    -- [ns] The fixed part of it, independent of the work.
    floor_ns,
    -- [ns] Their predicted self time.
    changed_ns,
    -- [ns] Lower end of the band: four of five ops lie inside, each taken by itself.
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
    count(*),
    sum(own_ns)::BIGINT,
    sum(floor_ns)::BIGINT,
    sum(changed_ns)::BIGINT AS changed_ns,
    sum(low_ns)::BIGINT,
    sum(high_ns)::BIGINT
FROM prediction.changed_op_time
INNER JOIN staging.op USING (op_id, trace_id)
GROUP BY ALL
ORDER BY scenario, run_id, changed_ns DESC, name, change, recorded_batch, sizes_from, family,
    basis;
