-- How much of the datasheet's peaks (`prediction.hardware`) a family of kernels reaches,
-- and how far the measured time of a kernel may lie from the prediction. Families that are
-- not listed use the values of `other`.
-- One row per family.
-- Key: family.
CREATE VIEW prediction.kernel_efficiency (
    -- Family.
    family,
    -- [1] Share of the arithmetic peak.
    compute_share,
    -- [1] Share of the peak memory bandwidth.
    memory_share,
    -- [1] Share of the level-2 cache's peak bandwidth.
    cache_share,
    -- Elements that a multiprocessor writes per clock if it addresses them individually.
    elements_per_clock,
    -- Fixed part of the duration, in floors of the hardware.
    floors,
    -- Lower end of the band, as a factor of the prediction.
    low_factor,
    -- Upper end of the band, as a factor of the prediction.
    high_factor
) AS
-- gemm: least absolute log error over aiconfigurator's 116,000 bf16 products on A100, H100,
-- B200 and L40S together: 0.70, 0.77. NeuSight's fp32 products: median 0.70 of the peak.
-- convolution: that of gemm; NeuSight's, with Winograd: 0.64 T4 to 0.93 V100. attention:
-- median of aiconfigurator's context attention, A100 and H100 0.33, B200 0.24.
-- memory_share: 0.79 of data movement is Lin et al.'s (paper-facts 3.1); elementwise 0.85,
-- between T4 and P100 (0.79, 0.81) and A100 and V100 (0.93, 0.99) of NeuSight's data.
-- There, each tensor counted once, softmax reaches 0.60 in the median (from 200 MB on), and
-- layer norm 0.43 to 0.60, in the median 0.51: kernels go over a row more than once.
-- embedding, index: 65-82 G elements/s on A100, 127-147 on H100 (Vidur): 0.5 per clock and
-- multiprocessor. concat: Lin et al.'s 0.79 of V100's bandwidth is 0.73, H100 traces 0.85;
-- copy, broadcast: between 1.3 (H100) and 0.7 (MI300X) of TraceLens' traces. collective:
-- bus bandwidth of aiconfigurator's NCCL data at 512 MB on 8 GPUs, of NVLink's: 0.68-0.78;
-- its floor is per doubling of the ranks: 5-7 us on A100, 3.4-5.2 us on H100. cache_share:
-- rooflines fitted to public data, a model of `kernels/shipped` each, have in the median
-- 0.6 of elementwise ops (22 models), 0.3 of normalization (8), 0.4 of softmax (5), 0.5 of
-- products (8), all of tensors that are in the cache from the repetition before. In traces
-- they are not always: it is about seven tenths of it, which also keeps V100 (2.8 TB/s of a
-- small cache) from being faster than A100. Families that move data are as elementwise.
-- floors: such fits to kernels that were profiled one by one (Vidur; A100, A40, H100): gemm
-- 3.4, 2.6 and 3.0, elementwise 1.3 in the median of six, embedding 1.9; rms norm 2.0 by
-- its shortest kernels; attention 6 (aiconfigurator's seven models). Warm repetitions tell
-- less (gemm 1.5 to 2.3). Families of which nobody published such kernels have 1.3 times
-- what their smallest kernels take in traces, which is as elementwise has it; fills, which
-- wait for no data, and memsets have as much as in traces. The share of
-- the cache and these floors were judged on the traces that `docs/kernel-coverage.md`
-- lists. pinned: copies between pinned host memory and the GPU reach 0.25, 0.25, 0.43 and
-- 0.56 of PCIe on the hosts of four public traces, of which this is the median; benchmarks,
-- whose memory is near the GPU, 0.79 (SuperBench's V100, nvbandwidth's A100). Bands: P10 and P90 of measured / predicted, per
-- kernel, in the public traces of PARAM, HTA, TraceLens and Kineto, one vote a trace. A
-- collective's holds the wait for other ranks.
SELECT
    family,
    compute_share::DOUBLE,
    memory_share::DOUBLE,
    cache_share::DOUBLE,
    elements_per_clock::DOUBLE,
    floors::DOUBLE,
    low_factor::DOUBLE,
    high_factor::DOUBLE
FROM (VALUES
    ('gemm', 0.70, 0.77, 0.42, NULL, 3.0, 0.6, 1.8),
    ('convolution', 0.70, 0.79, 0.42, NULL, 2.0, 0.3, 7.0),
    ('attention', 0.30, 0.79, 0.42, NULL, 6.0, 0.85, 2.6),
    ('embedding', 1.00, 0.79, 0.43, 0.5, 1.9, 0.6, 2.0),
    ('embedding_backward', 1.00, 0.79, 0.43, 0.25, 2.6, 0.4, 3.0),
    ('embedding_bag', 1.00, 0.60, 0.43, NULL, 2.6, 0.6, 2.0),
    ('embedding_bag_backward', 1.00, 0.60, 0.43, NULL, 3.9, 0.25, 2.5),
    ('elementwise', 1.00, 0.85, 0.43, NULL, 1.3, 0.6, 1.9),
    ('broadcast', 1.00, 0.79, 0.43, 1.0, 1.3, 0.65, 1.7),
    ('fused', 1.00, 0.85, 0.43, NULL, 1.3, 0.6, 2.5),
    ('reduction', 1.00, 0.60, 0.32, NULL, 3.2, 0.5, 4.0),
    ('softmax', 1.00, 0.60, 0.32, NULL, 2.6, 0.4, 2.9),
    ('normalisation', 1.00, 0.51, 0.27, NULL, 2.0, 0.75, 2.0),
    ('pooling', 1.00, 0.79, 0.43, NULL, 1.3, 0.7, 2.5),
    ('concat', 1.00, 0.79, 0.43, 0.8, 2.0, 0.6, 2.6),
    ('copy', 1.00, 0.79, 0.43, 1.0, 1.3, 0.7, 1.6),
    ('index', 1.00, 0.79, 0.43, 0.5, 2.0, 0.5, 3.0),
    ('fill', 1.00, 0.87, 0.43, NULL, 1.0, 0.6, 1.5),
    ('random', 1.00, 0.79, 0.43, NULL, 1.3, 0.7, 2.5),
    ('optimizer', 1.00, 0.79, 0.43, NULL, 2.0, 0.2, 1.7),
    ('memcpy', 1.00, 0.79, 0.43, NULL, 0.8, 0.55, 2.9),
    ('pinned', 1.00, 0.34, 0.43, NULL, 0.8, 0.55, 2.9),
    ('memset', 1.00, 0.87, 0.43, NULL, 0.6, 0.6, 2.4),
    ('collective', 1.00, 0.72, 0.43, NULL, 3.0, 0.7, 70.0),
    ('other', 1.00, 0.79, 0.43, NULL, 2.0, 0.4, 3.0)
) AS listed (
    family, compute_share, memory_share, cache_share, elements_per_clock, floors, low_factor,
    high_factor
);
