-- The time of lookups in shards of tables, and of their gradients, on the GPU of
-- `reference.sharding`: each shard size once, by kernel models or the roofline.
-- One row per shard size and direction; the launch itself has all sizes 0.
-- Key: direction, rows, width, pooling, dtype.
CREATE TABLE reference.shard_estimate (
    -- `forward` or `backward`.
    direction VARCHAR NOT NULL,
    -- Rows of the shard.
    rows BIGINT NOT NULL,
    -- Elements per row.
    width BIGINT NOT NULL,
    -- Mean number of rows looked up per example.
    pooling DOUBLE NOT NULL,
    -- Type of the elements.
    dtype VARCHAR NOT NULL,
    -- [ns] What the shard adds to the launch in which it is looked up.
    estimate_ns BIGINT NOT NULL,
    -- [ns] Lower end of its band.
    low_ns BIGINT NOT NULL,
    -- [ns] Upper end of its band.
    high_ns BIGINT NOT NULL,
    -- Name of the kernel model; NULL: from the roofline.
    model VARCHAR
);
