-- Calls of Python functions outside of PyTorch, which the profiler records along with the
-- Python stack (`with_stack=True`). What is not written in a file (built-in functions, frozen
-- and generated code), what is PyTorch's own or of `tracedb record`, and what took no time
-- are left out.
-- One row per call.
-- Key: python_frame_id.
CREATE VIEW staging.python_frame (
    -- The call's event.
    python_frame_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Name of the function, and the file and line where it is defined (of a generator: where
    -- it goes on): `preprocess (data.py:12)`. Of one that was open when recording began the
    -- trace has the line that it was at then, so its name has none: `main (train.py)`.
    name,
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
-- Recording begins inside of PyTorch: what begins before any call has ended was open by then,
-- or is PyTorch's own.
recorded AS (
    SELECT trace_id, min(end_ns) AS first_end_ns
    FROM staging.slice
    WHERE cat = 'python_function'
    GROUP BY trace_id
)

SELECT
    event_id,
    slice.trace_id,
    thread_id,
    regexp_replace(
        slice.name,
        '^(.+)\((\d+)\): (.*)$',
        CASE WHEN start_ns < first_end_ns THEN '\3 (\1)' ELSE '\3 (\1:\2)' END,
        's'
    ),
    start_ns,
    end_ns
FROM staging.slice AS slice
INNER JOIN recorded USING (trace_id)
INNER JOIN staging.thread USING (trace_id, pid, tid)
WHERE
    cat = 'python_function'
    AND slice.name LIKE '%.py(%): %'
    AND NOT regexp_matches(slice.name, '^(<|(.*/)?(torch|tracedb/record)/)')
    AND end_ns > start_ns;
