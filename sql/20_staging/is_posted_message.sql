-- Whether a name is that of a send or receive of a process group on the CPU, such as
-- `gloo:recv`: the profiler records it on the thread that posts it, from there until that
-- thread has waited for it. Meanwhile the thread does other things, so it is no op.
CREATE MACRO staging.is_posted_message(
    -- The name of an op or a range.
    name
) AS (
    (name LIKE 'gloo:%' OR name LIKE 'mpi:%' OR name LIKE 'ucc:%')
    AND regexp_matches(name, '^[a-z]+:(send|recv)')
);
