-- What do ops that compute on the host take at another batch size, and how is that known? What
-- they take however little there is to do stays, the rest goes with their work.
-- One row per scenario, run, name of an op, family and basis; a database at rest has no
-- scenarios (`tracedb whatif --rows op`).
-- Key: scenario, run_id, change, recorded_batch, sizes_from, name, family, basis.
CREATE VIEW question.scenario_op (
    -- The scenario.
    scenario,
    -- The run.
    run_id,
    -- What is changed, as `batch=4096`.
    change,
    -- The batch size that it was recorded with.
    recorded_batch,
    -- What tells how sizes follow the batch: the same ops in other `runs`, or `inferred` from
    -- what its own ops do, or likewise with the recorded batch size `given`.
    sizes_from,
    -- Name.
    name,
    -- Family, as in `prediction.op_work`; `unknown` where the work is.
    family,
    -- What tells the change: the `roofline` of both sizes, or, where the work is unknown, the
    -- `size` of its tensors; `unchanged` where nothing changes; `unknown` where it is not known
    -- how it follows the batch.
    basis,
    -- Ops.
    op_count,
    -- [ns] What they took themselves, without the ops in them.
    own_ns,
    -- [ns] Of that what they take whatever their work.
    floor_ns,
    -- [ns] What they take then.
    changed_ns
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
    sum(changed_ns)::BIGINT AS changed_ns
FROM prediction.changed_op_time
INNER JOIN staging.op USING (op_id, trace_id)
GROUP BY ALL
ORDER BY scenario, run_id, changed_ns DESC, name, change, recorded_batch, sizes_from, family,
    basis;
