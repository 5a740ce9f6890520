-- What scenarios change of the time of GPU work: what it is set to, then the product of the
-- factors, then the sum of what is added. On another GPU, or of another type, what its time
-- is multiplied by (`prediction.changed_time`) is one of the factors, but not of a time that is
-- set to a number, or taken from another run.
-- One row per variant and GPU op that it changes.
-- Key: variant_id, gpu_op_id.
CREATE VIEW prediction.gpu_edit (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU op.
    gpu_op_id,
    -- Whether it is removed (`prediction.removed_work`).
    is_removed,
    -- Edits that set its time: no more than one can.
    set_count,
    -- Streams that it is moved to: no more than one can be.
    stream_count,
    -- Whether something is inserted beside it.
    is_anchor,
    -- [ns] What its time is set to; NULL: to nothing.
    set_ns,
    -- What its time is multiplied by.
    factor,
    -- [ns] What is then added to it.
    add_ns
) AS
SELECT
    variant_id,
    work.gpu_op_id,
    bool_or(action = 'remove' OR fused.gpu_op_id <> fused.first_gpu_op_id),
    count(coalesce(edit.set_ns, time.set_ns, fused_ns)),
    count(DISTINCT CASE
        WHEN action = 'overlap' THEN coalesce(to_stream, -edit.position)
        ELSE to_stream
    END),
    bool_or(action = 'insert' AND edit.target = 'gpu'),
    any_value(coalesce(edit.set_ns, time.set_ns, fused_ns)),
    product(factor) * CASE
        WHEN count(edit.set_ns) + count(edit.from_run) + count(fused_ns) > 0 THEN 1
        ELSE any_value(coalesce(ratio, 1))
    END,
    sum(add_ns)::BIGINT
FROM prediction.edited_work AS work
INNER JOIN prediction.scenario_edit AS edit
    ON work.scenario = edit.scenario AND work.edit = edit.position
LEFT JOIN prediction.set_time AS time
    ON
        work.scenario = time.scenario
        AND work.edit = time.edit
        AND time.kind = 'gpu'
        AND work.gpu_op_id = target_id
LEFT JOIN prediction.fused_work AS fused
    ON
        work.scenario = fused.scenario
        AND work.edit = fused.edit
        AND work.gpu_op_id = fused.gpu_op_id
LEFT JOIN prediction.fused_time AS together
    ON
        work.scenario = together.scenario
        AND work.edit = together.edit
        AND work.gpu_op_id = together.gpu_op_id
LEFT JOIN prediction.changed_time AS changed
    ON work.scenario = changed.scenario AND work.gpu_op_id = changed.gpu_op_id
INNER JOIN prediction.variant AS variant ON work.scenario = variant.scenario
GROUP BY variant_id, work.gpu_op_id;
