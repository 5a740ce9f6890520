-- What a process group does on the CPU, in a thread of its own: the profiler names it by the
-- backend and what is called, as `gloo:all_reduce`.
-- One row per op.
-- Key: op_id.
CREATE TABLE staging.process_group_op (
    -- The op.
    op_id,
    -- The trace it is from.
    trace_id
) AS
SELECT op_id, trace_id
FROM staging.op
WHERE staging.is_process_group_op(name);
