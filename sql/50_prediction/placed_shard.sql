-- Shards of tables where plans place them, with their times there.
-- One row per plan, split and shard.
-- Key: plan, split, ordinal, part.
CREATE VIEW prediction.placed_shard (
    -- The plan.
    plan,
    -- Which tables it splits.
    split,
    -- The rank that has the shard.
    rank,
    -- The table.
    ordinal,
    -- The split.
    way,
    -- Number of shards of the table.
    parts,
    -- Number of the shard.
    part,
    -- Rows of the shard.
    rows,
    -- Elements per row.
    width,
    -- Mean number of rows looked up per example.
    pooling,
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
    placement.plan,
    placement.split,
    placement.rank,
    placement.ordinal,
    placement.way,
    placement.parts,
    placement.part,
    cost.* EXCLUDE (ordinal, way, parts, first_part, shard_count, looked_up)
FROM reference.shard_placement AS placement
INNER JOIN prediction.shard_cost AS cost
    ON
        placement.ordinal = cost.ordinal
        AND placement.way = cost.way
        AND placement.parts = cost.parts
        AND placement.part >= cost.first_part
        AND placement.part < cost.first_part + cost.shard_count;
