-- GPU work: kernels, copies, memsets.
-- One row per GPU op.
-- Key: gpu_op_id.
CREATE TABLE staging.gpu_op (
    -- The GPU op's event.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name.
    name,
    -- `kernel`, `memcpy`, `memset` or `other`.
    kind,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Call that launched it; NULL if it is not in the trace.
    call_id,
    -- Innermost op around the launch on its thread; NULL if there is none.
    op_id,
    -- Outermost op around the launch that is not a user range.
    top_op_id,
    -- Outermost op around the launch, including user ranges recorded as ops.
    outermost_op_id,
    -- Correlation number shared with its launch.
    correlation,
    -- External id as recorded: the op's, or in files of 2022-24 the correlation.
    external_id,
    -- [B] Bytes moved, for copies and memsets; NULL if below 0 or above 2^50.
    moved_bytes,
    -- Whether it is communication between ranks: as recorded, or by its name.
    is_collective
) AS
WITH
event AS (
    SELECT
        *,
        -- All at once: each extraction parses the arguments again.
        args ->> [
            '$.device', '$.stream', '$.correlation', '$."External id"', '$."external id"',
            '$.bytes', '$."Collective name"', '$.original_stream'
        ] AS argument
    FROM staging.slice
    WHERE staging.gpu_op_kind(cat, args) IS NOT NULL
),

gpu AS (
    SELECT
        event_id,
        trace_id,
        name,
        staging.gpu_op_kind(cat, args) AS kind,
        -- Lanes name them, too: `GPU 0`, `stream 7`.
        coalesce(
            try_cast(argument[1] AS BIGINT),
            try_cast(regexp_extract(pid, '([0-9]+) *$', 1) AS BIGINT)
        ) AS device,
        -- PyTorch can move what a CUDA graph runs to lanes of its own.
        coalesce(
            try_cast(argument[8] AS BIGINT),
            try_cast(argument[2] AS BIGINT),
            try_cast(regexp_extract(tid, '([0-9]+) *$', 1) AS BIGINT)
        ) AS stream,
        start_ns,
        end_ns,
        try_cast(argument[3] AS BIGINT) AS correlation,
        coalesce(
            try_cast(argument[4] AS BIGINT), try_cast(argument[5] AS BIGINT)
        ) AS external_id,
        try_cast(argument[6] AS BIGINT) AS bytes,
        CASE WHEN bytes BETWEEN 0 AND 1_125_899_906_842_624 THEN bytes END AS moved_bytes,
        -- As recorded; from a library (NCCL, RCCL, oneCCL, HCCL, NVSHMEM, the user buffers
        -- of Transformer Engine and similar); or a custom kernel that reads other GPUs'
        -- memory. Inductor names its kernels by the ops they compute.
        argument[7] IS NOT NULL
        OR regexp_matches(
            name,
            '(?i)^(void )?((n|r|x|h|m|ms|one)ccl|hcom_|nvshmem|k?userbuffers_)|^cncl'
            '|^(\(anonymous namespace\)|[^<(])*'
            -- `all` is a word, not the end of one such as in `small_reduce`.
            '((?-i:\ball|[_0-9]all|All|ALL)_?(reduce|gather|to_?all)'
            '|reduce_?scatter|cross_device_reduce|deep_ep::|c10d::symmetric_memory::)'
        )
        AND NOT regexp_matches(name, '^triton_|\bdeep_ep::layout::') AS is_collective
    FROM event
),

-- Calls within another one of their number, such as the driver's within the runtime's,
-- launch nothing more. Numbers can recur: work belongs to the last launch before it, or to
-- the first one.
launch AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY trace_id, correlation ORDER BY start_ns, end_ns DESC, call_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_until_ns,
        if(busy_until_ns IS NULL, -4_611_686_018_427_387_904, start_ns) AS from_ns
    FROM staging.call
    WHERE correlation IS NOT NULL
    QUALIFY coalesce(start_ns > busy_until_ns, true)
)

SELECT
    event_id AS gpu_op_id,
    raw.trace.run_id,
    gpu.trace_id,
    gpu.name,
    gpu.kind,
    device,
    stream,
    gpu.start_ns,
    gpu.end_ns,
    call_id,
    op_id,
    top_op_id,
    outermost_op_id,
    gpu.correlation,
    gpu.external_id,
    moved_bytes,
    is_collective
FROM gpu
INNER JOIN raw.trace USING (trace_id)
ASOF LEFT JOIN launch
    ON
        gpu.trace_id = launch.trace_id
        AND gpu.correlation = launch.correlation
        AND gpu.start_ns >= from_ns;
