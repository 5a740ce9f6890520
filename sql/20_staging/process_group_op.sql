-- Work of a process group on the CPU, on its own thread: the profiler names it by the
-- backend and the operation, such as `gloo:all_reduce`.
-- One row per op.
-- Key: op_id.
CREATE TABLE staging.process_group_op (
    -- The op.
    op_id,
    -- The trace.
    trace_id
) AS
SELECT op_id, trace_id
FROM staging.op
WHERE staging.is_process_group_op(name);
