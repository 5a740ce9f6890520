-- [ns] What work takes at given peaks: as long as the longer of its arithmetic and its bytes;
-- where no peak is known, as long as its bytes at 1 B/ns.
CREATE MACRO prediction.roofline_ns(
    -- [FLOP] Arithmetic.
    flops,
    -- Bytes.
    bytes,
    -- [FLOP/s] Peak of arithmetic, above 0, or NULL.
    flops_per_second,
    -- [B/s] Peak of bytes, likewise.
    bytes_per_second
) AS (
    greatest(
        coalesce(1e9 * flops / nullif(flops_per_second, 0), 0),
        1e9 * bytes / coalesce(nullif(bytes_per_second, 0), 1e9)
    )
);
