-- Times of shards of tables on a rank (`prediction.embedding_shard`).
-- One row per table, split and size of its shards.
-- Key: ordinal, way, parts, first_part.
CREATE VIEW prediction.shard_cost (
    -- The table.
    ordinal,
    -- The split.
    way,
    -- Number of shards of the table.
    parts,
    -- The first shard of this size, from 0.
    first_part,
    -- Number of shards of this size.
    shard_count,
    -- Rows of a shard.
    rows,
    -- Elements per row.
    width,
    -- Mean number of rows looked up per example.
    pooling,
    -- Elements looked up per step.
    looked_up,
    -- [B] The shard with its optimizer state.
    memory_bytes,
    -- [B] Sums for the examples of all ranks.
    sent_bytes,
    -- [B] Indices from all ranks.
    index_bytes,
    -- [ns] What it adds to the lookup of its rank.
    forward_ns,
    -- [ns] Lower end of its band.
    forward_low_ns,
    -- [ns] Upper end of its band.
    forward_high_ns,
    -- [ns] What it adds to the gradient and update of its rank.
    backward_ns,
    -- [ns] Lower end of its band.
    backward_low_ns,
    -- [ns] Upper end of its band.
    backward_high_ns
) AS
SELECT
    shard.ordinal,
    shard.way,
    shard.parts,
    shard.first_part,
    shard.shard_count,
    shard.rows,
    shard.width,
    shard.pooling,
    shard.looked_up,
    shard.memory_bytes,
    shard.sent_bytes,
    shard.index_bytes,
    ahead.estimate_ns,
    ahead.low_ns,
    ahead.high_ns,
    back.estimate_ns,
    back.low_ns,
    back.high_ns
FROM prediction.embedding_shard AS shard
INNER JOIN reference.shard_estimate AS ahead USING (rows, width, pooling, dtype)
INNER JOIN reference.shard_estimate AS back USING (rows, width, pooling, dtype)
WHERE ahead.direction = 'forward' AND back.direction = 'backward';
