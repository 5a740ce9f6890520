-- Devices that the user added (`tracedb kernels hardware --add`), as they were given; NULL
-- where they were not.
-- One row per model of a device.
-- Key: hardware.
CREATE TABLE reference.hardware (
    -- Name of the model.
    hardware VARCHAR NOT NULL,
    -- Number of the row, from 1.
    ordinal BIGINT NOT NULL,
    -- Regular expression to find in the name of a device, whatever its case.
    name_pattern VARCHAR NOT NULL,
    -- `gpu` or `cpu`.
    kind VARCHAR NOT NULL,
    -- [FLOP/s] Of fp32 arithmetic, outside matrix units.
    peak_fp32_flops_per_second DOUBLE NOT NULL,
    -- [FLOP/s] Of fp32 products with TF32 inputs.
    peak_tf32_flops_per_second DOUBLE,
    -- [FLOP/s] Of fp16 and bf16 matrix products.
    peak_half_flops_per_second DOUBLE,
    -- [1] What the best products reach of the matrix peaks, relative to NVIDIA's GPUs.
    matrix_share DOUBLE,
    -- [B/s] Of the device's memory.
    dram_bytes_per_second DOUBLE NOT NULL,
    -- [B] Level-2 cache.
    l2_bytes BIGINT NOT NULL,
    -- [B/s] Of that cache.
    l2_bytes_per_second DOUBLE,
    -- Streaming multiprocessors, compute units or cores.
    sm_count BIGINT NOT NULL,
    -- [1/s] Boost clock.
    clocks_per_second DOUBLE NOT NULL,
    -- [B/s] Between pinned host memory and the device.
    pcie_bytes_per_second DOUBLE,
    -- [B/s] Between pageable host memory and the device.
    pageable_bytes_per_second DOUBLE,
    -- [B/s] To all devices of the node together.
    nvlink_bytes_per_second DOUBLE,
    -- [B/s] What its messages to other nodes reach, when all of its node send.
    network_bytes_per_second DOUBLE,
    -- [ns] A step from node to node.
    network_latency_ns BIGINT,
    -- Devices of a node.
    devices_per_node BIGINT,
    -- [ns] Duration of a kernel that has next to nothing to do.
    floor_ns BIGINT,
    -- [FLOP/s] The best that was measured of fp32 products.
    reached_fp32_flops_per_second DOUBLE,
    -- [FLOP/s] The best that was measured of bf16 products.
    reached_half_flops_per_second DOUBLE,
    -- [B/s] The best that was measured of the memory.
    reached_dram_bytes_per_second DOUBLE,
    -- Name of its generation, as in `prediction.hardware`.
    generation VARCHAR
);
