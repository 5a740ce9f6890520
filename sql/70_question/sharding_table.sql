-- Which rank has which table, or shard of it, and what does it cost? For the plans of
-- `tracedb shard`.
-- One row per plan, split and shard.
-- Key: plan, split, ordinal, part.
CREATE VIEW question.sharding_table (
    -- The plan.
    plan,
    -- Which tables it splits.
    split,
    -- The rank that has the shard.
    rank,
    -- The table: its position in the model, from 0.
    ordinal,
    -- Its name.
    name,
    -- The split: `none`, `column` or `row`.
    way,
    -- Number of shards of the table.
    parts,
    -- Number of the shard, from 0.
    part,
    -- Rows of the shard.
    rows,
    -- Elements per row.
    width,
    -- Mean number of rows looked up per example.
    pooling,
    -- [ns] What it adds to the lookup of its rank.
    forward_ns,
    -- [ns] What it adds to the gradient and update of its rank.
    backward_ns,
    -- [B] Sums for the examples of all ranks, which are sent to them; gradients return.
    sent_bytes,
    -- [B] Indices from all ranks.
    index_bytes,
    -- [B] The shard with its optimizer state.
    memory_bytes
) AS
SELECT
    plan,
    split,
    rank,
    ordinal,
    sharded.name,
    way,
    parts,
    part,
    placed.rows,
    placed.width,
    placed.pooling,
    forward_ns,
    backward_ns,
    sent_bytes,
    index_bytes,
    memory_bytes
FROM prediction.placed_shard AS placed
INNER JOIN reference.sharded_table AS sharded USING (ordinal)
ORDER BY plan, split, rank, forward_ns + backward_ns DESC, ordinal, part;
