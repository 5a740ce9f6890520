-- Calls of Python functions outside PyTorch, which the profiler records with Python stacks
-- (`with_stack=True`). Excluded are functions without a file (built-in functions, frozen
-- and generated code), those of PyTorch itself or of `tracedb record`, and calls that took
-- no time.
-- One row per call.
-- Key: python_frame_id.
CREATE VIEW staging.python_frame (
    -- The call's event.
    python_frame_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Name of the function, and the file and line of its definition (of a generator: where
    -- it resumes): `preprocess (data.py:12)`. For a function that was open when recording
    -- started, the trace only has the line it was at, so its name has no line: `main
    -- (train.py)`.
    name,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Name of the event: `data.py(12): preprocess`.
    event_name,
    -- Whether it is of Python's standard library, such as `deepcopy (copy.py:128)`.
    is_standard
) AS
WITH
-- Recording starts inside PyTorch: a call that starts before any call has ended was already
-- open, or is PyTorch's own.
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
    end_ns,
    slice.name,
    staging.is_standard_file(slice.name)
FROM staging.slice AS slice
INNER JOIN recorded USING (trace_id)
INNER JOIN staging.thread USING (trace_id, pid, tid)
WHERE
    cat = 'python_function'
    AND slice.name LIKE '%.py(%): %'
    AND NOT regexp_matches(slice.name, '^(<|(.*/)?(torch|tracedb/record)/)')
    AND end_ns > start_ns;
