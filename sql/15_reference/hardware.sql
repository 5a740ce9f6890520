-- Devices added by the user (`tracedb kernels hardware --add`), as given; NULL if not
-- given.
-- One row per device model.
-- Key: hardware.
CREATE TABLE reference.hardware (
    -- Name of the model.
    hardware VARCHAR NOT NULL,
    -- Number of the row, from 1.
    ordinal BIGINT NOT NULL,
    -- Regular expression to find in the name of a device, case-insensitive.
    name_pattern VARCHAR NOT NULL,
    -- `gpu` or `cpu`.
    kind VARCHAR NOT NULL,
    -- [FLOP/s] fp32 arithmetic outside matrix units.
    peak_fp32_flops_per_second DOUBLE NOT NULL,
    -- [FLOP/s] fp32 GEMMs with TF32 inputs.
    peak_tf32_flops_per_second DOUBLE,
    -- [FLOP/s] fp16 and bf16 GEMMs.
    peak_half_flops_per_second DOUBLE,
    -- [FLOP/s] fp64 arithmetic outside matrix units.
    peak_fp64_flops_per_second DOUBLE,
    -- [FLOP/s] fp64 GEMMs.
    peak_fp64_matrix_flops_per_second DOUBLE,
    -- [1] Share of the matrix peaks that the best GEMMs reach, relative to NVIDIA's GPUs.
    matrix_share DOUBLE,
    -- [B/s] Bandwidth of the device's memory.
    dram_bytes_per_second DOUBLE NOT NULL,
    -- [B] Level-2 cache.
    l2_bytes BIGINT NOT NULL,
    -- [B/s] Bandwidth of that cache.
    l2_bytes_per_second DOUBLE,
    -- Streaming multiprocessors, compute units or cores.
    sm_count BIGINT NOT NULL,
    -- [1/s] Boost clock.
    clocks_per_second DOUBLE NOT NULL,
    -- [B/s] Between pinned host memory and the device.
    pcie_bytes_per_second DOUBLE,
    -- [B/s] Between pageable host memory and the device.
    pageable_bytes_per_second DOUBLE,
    -- [B/s] To all devices together that it is linked with.
    nvlink_bytes_per_second DOUBLE,
    -- [B/s] What its messages to other nodes reach, when all of its node send.
    network_bytes_per_second DOUBLE,
    -- [ns] Latency of a step from node to node.
    network_latency_ns BIGINT,
    -- Devices of a node.
    devices_per_node BIGINT,
    -- Of them, those that a bridge joins; NULL if the link joins all.
    linked_devices BIGINT,
    -- [ns] Duration of a kernel with next to nothing to do.
    floor_ns BIGINT,
    -- [FLOP/s] Best measured rate of fp32 GEMMs.
    reached_fp32_flops_per_second DOUBLE,
    -- [FLOP/s] Best measured rate of bf16 GEMMs.
    reached_half_flops_per_second DOUBLE,
    -- [B/s] Best measured memory bandwidth.
    reached_dram_bytes_per_second DOUBLE,
    -- Name of its generation, as in `prediction.hardware`.
    generation VARCHAR
);
