-- What the profiler records of each kernel of communication: with the kernel, in the range
-- around its launch (`nccl:all_reduce`), or as its name and shapes.
-- One row per such kernel.
-- Key: node_id.
CREATE VIEW staging.collective_kernel (
    -- The kernel.
    node_id,
    -- The trace.
    trace_id,
    -- What is called, or the kernel's name; in lower case.
    spoken,
    -- Name of the process group, and its ranks, as far as recorded.
    process_group,
    -- Ranks of the group, if recorded.
    given_size,
    -- Input elements, if known.
    given_count,
    -- Their type, if the range that describes the call records it.
    element_type,
    -- Number of the collective in its group, the same on all ranks, if recorded.
    sequence,
    -- [ns] Start of the launch, or of the kernel if the launch is unknown.
    called_ns,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
kernel AS (
    SELECT
        gpu_op.*,
        args ->> [
            '$."Collective name"', '$."Process Group Name"', '$."Group size"',
            '$."In msg nelems"', '$.Seq', '$."Process Group Ranks"'
        ] AS argument
    FROM staging.gpu_op AS gpu_op
    INNER JOIN staging.slice ON gpu_op.gpu_op_id = staging.slice.event_id
    WHERE is_collective
),

-- Ranges that describe the call and its arguments.
range AS (
    SELECT
        thread_id,
        annotation.start_ns,
        annotation.end_ns,
        regexp_extract(annotation.name, '^([a-z]*ccl|cncl):(.*)', 2) AS called,
        args ->> '$."Input Dims"' AS input_dims,
        args ->> '$."Input type"[0]' AS input_type
    FROM staging.annotation AS annotation
    INNER JOIN staging.slice ON annotation_id = event_id
    WHERE regexp_matches(annotation.name, '^([a-z]*ccl|cncl):')
),

called_collective AS (
    SELECT
        kernel.*,
        launch.start_ns AS launch_start_ns,
        CASE WHEN launch.start_ns < range.end_ns THEN called END AS called,
        CASE WHEN launch.start_ns < range.end_ns THEN input_type END AS element_type,
        coalesce(
            nullif(try_cast(op.input_dims -> 0 AS BIGINT []), []),
            CASE
                WHEN launch.start_ns < range.end_ns
                    THEN nullif(try_cast(range.input_dims -> 0 AS BIGINT []), [])
            END
        ) AS dims
    FROM kernel
    LEFT JOIN staging.call AS launch ON kernel.call_id = launch.call_id
    LEFT JOIN staging.op AS op ON kernel.op_id = op.op_id
    ASOF LEFT JOIN range
        ON launch.thread_id = range.thread_id AND launch.start_ns >= range.start_ns
),

-- An all_to_all consists of sends and receives; so the called operation takes precedence.
named AS (
    SELECT
        *,
        lower(coalesce(argument[1], nullif(called, ''), name)) AS spoken,
        try_cast(argument[3] AS INTEGER) AS given_size,
        coalesce(try_cast(argument[4] AS BIGINT), list_product(dims)) AS given_count
    FROM called_collective
)

SELECT
    gpu_op_id,
    trace_id,
    spoken,
    concat_ws(' ', argument[2], argument[6]),
    given_size,
    given_count,
    element_type,
    try_cast(argument[5] AS BIGINT),
    coalesce(launch_start_ns, start_ns),
    start_ns,
    end_ns
FROM named;
