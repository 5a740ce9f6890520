-- The profiler that recorded each trace, and its settings.
-- One row per profiler file; none for execution graphs.
-- Key: trace_id.
CREATE VIEW staging.recording (
    -- The trace.
    trace_id,
    -- The profiler: `PyTorch profiler`, or the tool that the file was exported from;
    -- `unknown profiler` if no slice has a category that is read.
    profiler,
    -- Whether none of it ever ran: `tracedb estimate` made it from a program's code.
    is_estimated,
    -- The GPU runtime with its version, such as `CUDA 12.4`; NULL if unknown.
    runtime,
    -- Whether ops have the shapes of their arguments (`record_shapes=True`).
    has_shapes,
    -- Whether calls of Python functions and modules are recorded (`with_stack=True`).
    has_stack,
    -- Whether allocations are recorded (`profile_memory=True`).
    has_memory,
    -- Whether the profiler recorded what waits on devices are for
    -- (`enable_cuda_sync_events=True`).
    has_waits,
    -- If the rank is assumed from the order of processes in a file with several: whether
    -- by their GPUs (`gpu`), by labels such as `TP0-PP1` (`label`), or by their ids or place
    -- in the file (`process`); otherwise NULL.
    rank_assumed_from,
    -- Events of the profiler's own work, as it recorded them: flushing of full buffers,
    -- instrumentation.
    overhead_count,
    -- [ns] Their time.
    overhead_ns
) AS
WITH
found AS (
    SELECT
        trace_id,
        bool_or(cat = 'python_function') AS has_stack,
        bool_or(name = '[memory]') AS has_memory,
        bool_or(cat = 'cuda_sync') AS has_waits,
        count(*) FILTER (cat = 'overhead' AND dur_ns >= 0) AS overhead_count,
        sum(dur_ns) FILTER (cat = 'overhead' AND dur_ns >= 0) AS overhead_ns
    FROM raw.event
    GROUP BY trace_id
),

-- Once for each category: there are few.
sliced AS (
    SELECT trace_id, bool_or(staging.is_read_category(cat)) AS is_read
    FROM (SELECT DISTINCT trace_id, cat FROM raw.event WHERE ph IN ('X', 'B'))
    GROUP BY trace_id
),

shaped AS (
    SELECT trace_id, bool_or(input_dims IS NOT NULL) AS has_shapes
    FROM staging.op
    GROUP BY trace_id
),

header_field AS (
    SELECT
        trace_id,
        format,
        header ->> '$.source.tool' AS tool,
        header ->> '$.distributedInfo.assumed_from' AS assumed_from,
        coalesce(header ->> '$.estimated' = 'true', false) AS is_estimated,
        try_cast(header ->> '$.cuda_runtime_version' AS BIGINT) AS cuda,
        try_cast(header ->> '$.hip_runtime_version' AS BIGINT) AS hip
    FROM raw.trace
)

SELECT
    trace_id,
    coalesce(tool, if(is_read IS false, 'unknown profiler', 'PyTorch profiler')),
    is_estimated,
    CASE
        WHEN cuda BETWEEN 1_000 AND 1_000_000
            THEN concat('CUDA ', cuda // 1_000, '.', cuda % 1_000 // 10)
        WHEN hip BETWEEN 10_000_000 AND 10_000_000_000
            THEN concat('HIP ', hip // 10_000_000, '.', hip % 10_000_000 // 100_000)
    END,
    coalesce(has_shapes, false),
    coalesce(has_stack, false),
    coalesce(has_memory, false),
    coalesce(has_waits, false),
    assumed_from,
    coalesce(overhead_count, 0),
    coalesce(overhead_ns, 0)::BIGINT
FROM header_field
LEFT JOIN found USING (trace_id)
LEFT JOIN sliced USING (trace_id)
LEFT JOIN shaped USING (trace_id)
WHERE format = 'kineto';
