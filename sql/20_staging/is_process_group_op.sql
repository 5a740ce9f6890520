-- Whether a name is that of an op that a process group runs on the CPU, on its own thread:
-- the profiler names it by the backend and the operation, such as `gloo:all_reduce`.
CREATE MACRO staging.is_process_group_op(
    -- The name of an op or a range.
    name
) AS (
    name LIKE 'gloo:%' OR name LIKE 'mpi:%' OR name LIKE 'ucc:%'
);
