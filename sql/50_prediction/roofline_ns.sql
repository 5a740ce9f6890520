-- [ns] Time of work at given peaks: the longer of the times for its FLOPs and its bytes; if
-- no peak is known, that of its bytes at 1 B/ns.
CREATE MACRO prediction.roofline_ns(
    -- [FLOP] FLOPs.
    flops,
    -- Bytes.
    bytes,
    -- [FLOP/s] Arithmetic peak, above 0, or NULL.
    flops_per_second,
    -- [B/s] Peak of bytes, likewise.
    bytes_per_second
) AS (
    greatest(
        coalesce(1e9 * flops / nullif(flops_per_second, 0), 0),
        1e9 * bytes / coalesce(nullif(bytes_per_second, 0), 1e9)
    )
);
