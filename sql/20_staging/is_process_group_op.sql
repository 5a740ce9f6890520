-- Whether a name is that of a collective that a process group runs on the CPU, on its own
-- thread: the profiler names it by the backend and the operation, such as
-- `gloo:all_reduce`. Sends and receives (`staging.is_posted_message`) have no thread.
CREATE MACRO staging.is_process_group_op(
    -- The name of an op or a range.
    name
) AS (
    (name LIKE 'gloo:%' OR name LIKE 'mpi:%' OR name LIKE 'ucc:%')
    AND NOT staging.is_posted_message(name)
);
