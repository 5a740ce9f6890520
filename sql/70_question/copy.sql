-- Which direction do copies go, how fast are they, and is host memory pinned?
-- One row per run, direction and kind of memory.
-- Key: run_id, direction, memory.
-- Counts: staging.gpu_op.
CREATE VIEW question.copy (
    -- The run.
    run_id,
    -- `h2d` (to the device), `d2h` (to the host), `d2d` (on devices) or `p2p` (between them).
    direction,
    -- `pinned` or `pageable` host memory; NULL if the trace does not record it.
    memory,
    -- Copies.
    copy_count,
    -- [B] Bytes moved, as far as recorded.
    moved_bytes,
    -- [ns] Their time on the device.
    time_ns,
    -- [B/s] Bytes moved, divided by the time of the copies that record them.
    moved_bytes_per_second,
    -- [ns] Time for which blocking calls held the host for such a copy.
    blocked_ns
) AS
WITH
blocked AS (
    SELECT gpu_op_id, sum(end_ns - start_ns) AS blocked_ns
    FROM graph.host_wait
    WHERE target = 'copy'
    GROUP BY gpu_op_id
)

SELECT
    run_id,
    staging.copy_direction(name) AS direction,
    CASE
        WHEN name ILIKE '%pinned%' THEN 'pinned'
        WHEN name ILIKE '%pageable%' THEN 'pageable'
    END AS memory,
    count(*),
    sum(moved_bytes)::BIGINT,
    sum(end_ns - start_ns)::BIGINT AS time_ns,
    sum(moved_bytes) * 1e9
    / nullif(sum(end_ns - start_ns) FILTER (moved_bytes IS NOT NULL), 0),
    coalesce(sum(blocked_ns), 0)::BIGINT
FROM staging.gpu_op
LEFT JOIN blocked USING (gpu_op_id)
WHERE kind = 'memcpy'
GROUP BY run_id, direction, memory
ORDER BY run_id, time_ns DESC, direction, memory;
