-- GPU work as recorded: kernels, copies, memsets.
-- One row per GPU op.
-- Key: event_id.
CREATE VIEW staging.gpu_record (
    -- The GPU op's event.
    event_id,
    -- The trace.
    trace_id,
    -- Lane of the recording: process, or the device.
    pid,
    -- Lane of the recording: thread, or the stream.
    tid,
    -- Name.
    name,
    -- `kernel`, `memcpy`, `memset` or `other`.
    kind,
    -- Device.
    device,
    -- Stream of the device.
    stream,
    -- [ns] Start, from the time base of the trace.
    start_ns,
    -- [ns] End, likewise.
    end_ns,
    -- Correlation number shared with its launch.
    correlation,
    -- External id: the op's, or in files of 2022-24 the correlation.
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
)

SELECT
    event_id,
    trace_id,
    pid,
    tid,
    name,
    staging.gpu_op_kind(cat, args),
    -- Lanes name them, too: `GPU 0`, `stream 7`.
    coalesce(
        try_cast(argument[1] AS BIGINT),
        try_cast(regexp_extract(pid, '([0-9]+) *$', 1) AS BIGINT)
    ),
    -- PyTorch can move what a CUDA graph runs to lanes of its own.
    coalesce(
        try_cast(argument[8] AS BIGINT),
        try_cast(argument[2] AS BIGINT),
        try_cast(regexp_extract(tid, '([0-9]+) *$', 1) AS BIGINT)
    ),
    start_ns,
    end_ns,
    try_cast(argument[3] AS BIGINT),
    coalesce(
        try_cast(argument[4] AS BIGINT), try_cast(argument[5] AS BIGINT)
    ),
    CASE
        WHEN try_cast(argument[6] AS BIGINT) BETWEEN 0 AND 1_125_899_906_842_624
            THEN try_cast(argument[6] AS BIGINT)
    END,
    -- As recorded; from a library (NCCL, RCCL, oneCCL, HCCL, NVSHMEM, the user buffers
    -- of Transformer Engine and similar); a custom kernel that reads other GPUs' memory;
    -- or one that sends tokens to experts on other ranks, or what they computed back.
    -- Inductor names its kernels by the ops they compute.
    argument[7] IS NOT NULL
    OR regexp_matches(
        name,
        '(?i)^(void )?((n|r|x|h|m|ms|one)ccl|hcom_|(nv|roc|i)shmem|k?userbuffers_)|^cncl'
        -- NVSHMEM's on a stream.
        '|^(void )?(barrier|sync|sync_all)_on_stream_kernel'
        '|^(\(anonymous namespace\)|[^<(])*'
        -- `all` is a word, not the end of one such as in `small_reduce`.
        '((?-i:\ball|[_0-9]all|All|ALL)_?(reduce|gather|(to|2)_?all)'
        '|reduce_?scatter|cross_device_reduce|multimem_one_shot_reduce|c10d::symmetric_memory::'
        '|\b(deep_ep|uccl|rocshmem)::|\bhybrid_ep::(dispatch|combine|device_sync)'
        -- Of TensorRT-LLM and FlashInfer, of MoRI, of Mooncake, and of Perplexity.
        '|moeA2A(Dispatch|Combine)Kernel|fusedMoeCommKernel|\bEp(Dispatch|Combine)(Intra|Inter)'
        '|\bmooncake_ep_jit_(dispatch|combine)|\ba2a_(dispatch|combine)_(send|recv)_kernel)'
    )
    AND NOT regexp_matches(name, '^triton_|\b(deep_ep|uccl)::layout::')
FROM event;
