-- Instances into which NVIDIA's GPUs are divided (MIG), with their parts of the whole, as
-- in the table of profiles of the MIG User Guide (docs.nvidia.com). An instance of all
-- multiprocessors is the whole GPU.
-- One row per GPU model and size of an instance.
-- Key: instance.
CREATE TABLE prediction.gpu_instance (
    -- Name of the instance.
    instance,
    -- Name of the GPU that is divided.
    hardware,
    -- Slices of multiprocessors, as in the name of its profile: 2 of `2g.20gb`.
    slices,
    -- [1] Part of the multiprocessors.
    compute_share,
    -- [1] Part of the memory, of its bandwidth, and of the level-2 cache.
    memory_share
) AS
SELECT
    concat(hardware, ' MIG ', slices, 'g') AS instance,
    hardware,
    slices::BIGINT,
    slices / most,
    memory_share::DOUBLE
FROM (
    SELECT
        hardware,
        CASE WHEN hardware IN ('A30', 'RTX PRO 6000') THEN 4 ELSE 7 END AS most
    FROM prediction.datasheet
    WHERE regexp_matches(
        hardware, '^(A30|A[18]00|[HB]100|H20|H800|G?[HB][23]00|RTX PRO 6000)\b'
    )
) AS divided
INNER JOIN (
    VALUES (7, 1, 0.125), (7, 2, 0.25), (7, 3, 0.5), (7, 4, 0.5), (4, 1, 0.25), (4, 2, 0.5)
) AS profile (most, slices, memory_share) USING (most);
