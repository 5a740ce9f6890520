-- Edits of individual GPU work, before any joining: the set time, the factor, the addition,
-- and whether it is removed.
-- One row per scenario and GPU op that it edits.
-- Key: scenario, gpu_op_id.
CREATE VIEW prediction.work_edit (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- Whether it is removed.
    is_removed,
    -- Edits that set its time: at most one is allowed.
    set_count,
    -- Streams that it moves to: at most one is allowed.
    stream_count,
    -- Whether something is inserted next to it.
    is_anchor,
    -- [ns] The time it is set to; NULL: none.
    set_ns,
    -- The factor for its time, excluding moves.
    factor,
    -- The factor for its time on another GPU, or with another type
    -- (`prediction.bounded_time`): 1 for a time that is set to a number, or taken from
    -- another run.
    ratio,
    -- [ns] What is added after that.
    add_ns
) AS
SELECT
    work.scenario,
    work.gpu_op_id,
    bool_or(action = 'remove'),
    count(coalesce(edit.set_ns, time.set_ns)),
    count(DISTINCT CASE
        WHEN action = 'overlap' THEN coalesce(to_stream, -edit.position)
        ELSE to_stream
    END),
    bool_or(action = 'insert' AND edit.target = 'gpu'),
    any_value(coalesce(edit.set_ns, time.set_ns)),
    product(factor),
    CASE
        WHEN count(edit.set_ns) + count(edit.from_run) > 0 THEN 1
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
LEFT JOIN prediction.bounded_time AS changed
    ON work.scenario = changed.scenario AND work.gpu_op_id = changed.gpu_op_id
GROUP BY work.scenario, work.gpu_op_id;
