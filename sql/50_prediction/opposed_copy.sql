-- Copies from pinned host memory to a GPU during which others ran from it to pinned memory.
-- One row per such copy.
-- Key: gpu_op_id.
CREATE VIEW prediction.opposed_copy (
    -- The copy.
    gpu_op_id,
    -- The trace.
    trace_id,
    -- [B] What the others moved during it.
    opposed_bytes
) AS
WITH
pinned AS (
    SELECT
        gpu_op_id, trace_id, device, start_ns, end_ns, moved_bytes,
        staging.copy_direction(name) AS direction
    FROM staging.gpu_op
    WHERE
        kind = 'memcpy' AND moved_bytes > 0 AND end_ns > start_ns
        AND NOT regexp_matches(name, '(?i)pageable')
)

SELECT
    copied.gpu_op_id,
    copied.trace_id,
    round(sum(
        other.moved_bytes::DOUBLE
        * (least(other.end_ns, copied.end_ns) - greatest(other.start_ns, copied.start_ns))
        / (other.end_ns - other.start_ns)
    ))::BIGINT
FROM pinned AS copied
INNER JOIN pinned AS other
    ON
        copied.trace_id = other.trace_id
        AND copied.device = other.device
        AND other.start_ns < copied.end_ns
        AND other.end_ns > copied.start_ns
WHERE copied.direction = 'h2d' AND other.direction = 'd2h'
GROUP BY copied.gpu_op_id, copied.trace_id;
