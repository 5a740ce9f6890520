-- Calls of Python functions outside of PyTorch, which the profiler records along with the
-- Python stack (`with_stack=True`). What is not written in a file (built-in functions, frozen
-- and generated code), what is PyTorch's own and what took no time are left out.
-- One row per call.
-- Key: python_frame_id.
CREATE VIEW staging.python_frame (
    -- The call's event.
    python_frame_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Name of the function, and the file and line where it is defined: `preprocess
    -- (data.py:12)`.
    name,
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns
) AS
SELECT
    event_id,
    trace_id,
    thread_id,
    regexp_replace(slice.name, '^(.+)\((\d+)\): (.*)$', '\3 (\1:\2)', 's'),
    start_ns,
    end_ns
FROM staging.slice AS slice
INNER JOIN staging.thread USING (trace_id, pid, tid)
WHERE
    cat = 'python_function'
    AND slice.name LIKE '%.py(%): %'
    AND NOT regexp_matches(slice.name, '^(<|(.*/)?torch/)')
    AND end_ns > start_ns;
