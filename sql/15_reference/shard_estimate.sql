-- How long lookups in shards of tables, and their gradients, take on the GPU of
-- `reference.sharding`: each size of shards once, by kernel models or the roofline.
-- One row per size of shards and direction; the launch itself has all sizes 0.
-- Key: direction, rows, width, pooling, dtype.
CREATE TABLE reference.shard_estimate (
    -- `forward` or `backward`.
    direction VARCHAR NOT NULL,
    -- Rows of the shard.
    rows BIGINT NOT NULL,
    -- Elements of a row.
    width BIGINT NOT NULL,
    -- Rows that are looked up for an example, in the mean.
    pooling DOUBLE NOT NULL,
    -- Type of the elements.
    dtype VARCHAR NOT NULL,
    -- [ns] What the shard adds to the launch that it is looked up in.
    estimate_ns BIGINT NOT NULL,
    -- [ns] Lower end of its band.
    low_ns BIGINT NOT NULL,
    -- [ns] Upper end of its band.
    high_ns BIGINT NOT NULL,
    -- Name of the kernel model; NULL: by the roofline.
    model VARCHAR
);
