-- Copies and memsets: their bytes are read and written on the device; over a link they are
-- sent once, and memsets read nothing. If its size is not recorded, a copy has that of the
-- op that launched it.
-- One row per copy or memset of known size.
-- Key: gpu_op_id.
CREATE VIEW prediction.gpu_copy (
    -- The copy or memset.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The op that launched it; NULL outside of ops.
    op_id,
    -- Device that it runs on.
    device,
    -- `memcpy` or `memset`.
    family,
    -- `h2d`, `d2h` (or `_pageable`), `d2d`, `p2p`; `memset`.
    op,
    -- What the bytes go through: `dram`, `pcie`, `pageable` or `nvlink`.
    link,
    -- Bytes copied or set.
    bytes,
    -- [FLOP] FLOPs.
    flops,
    -- [B] Bytes read, or sent.
    read_bytes,
    -- [B] Bytes written.
    written_bytes,
    -- Whether all relevant sizes and types were recorded.
    is_exact
) AS
WITH
copied AS (
    SELECT
        *,
        CASE kind WHEN 'memset' THEN kind ELSE staging.copy_direction(name) END AS direction
    FROM staging.gpu_op
    WHERE kind IN ('memcpy', 'memset')
),

problem AS (
    SELECT
        copied.*,
        kind AS family,
        CASE
            WHEN direction = 'memset' THEN 'dram'
            WHEN regexp_matches(name, '(?i)pageable') THEN 'pageable'
            WHEN direction IN ('h2d', 'd2h') THEN 'pcie'
            WHEN direction = 'p2p' THEN 'nvlink'
            ELSE 'dram'
        END AS link,
        direction || CASE link WHEN 'pageable' THEN '_pageable' ELSE '' END AS op,
        coalesce(
            moved_bytes, CASE WHEN kind = 'memcpy' THEN written_bytes ELSE 0 END
        ) AS bytes,
        moved_bytes IS NOT NULL AS is_exact
    FROM copied
    LEFT JOIN prediction.op_work AS work ON copied.op_id = work.op_id AND work.family = 'copy'
)

SELECT
    gpu_op_id, run_id, trace_id, op_id, device, family, op, link,
    try_cast(bytes AS BIGINT) AS bytes,
    0::DOUBLE AS flops,
    CASE family WHEN 'memset' THEN 0 ELSE try_cast(bytes AS BIGINT) END AS read_bytes,
    CASE WHEN op IN ('d2d', 'memset') THEN try_cast(bytes AS BIGINT) ELSE 0 END::BIGINT
    AS written_bytes,
    is_exact
FROM problem
WHERE bytes IS NOT NULL;
