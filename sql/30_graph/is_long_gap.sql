-- Whether a gap between two ops is the program's own, not an overhead of PyTorch: 200 us and
-- more (Lin et al. 2022 exclude such gaps from shared overheads).
CREATE MACRO graph.is_long_gap(
    -- [ns] Its duration.
    gap_ns
) AS (
    gap_ns >= 200_000
);
