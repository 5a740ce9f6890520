-- Where plans put the shards of tables (`prediction.embedding_shard`). A plan of your own is
-- rows with a name of its own: `question.sharding` tells of it as of the others.
-- One row per plan, split and shard.
-- Key: plan, split, ordinal, part.
CREATE TABLE reference.shard_placement (
    -- How shards are given to ranks: `naive` (one after the other), `size`, `lookups` and
    -- `cost` (the largest first, each to the rank that has least of that) or `searched`.
    plan VARCHAR NOT NULL,
    -- Which tables are split: `none`, by `column` or by `row` those that are too large or
    -- too slow for a rank, or `any`, as the search likes it.
    split VARCHAR NOT NULL,
    -- The table.
    ordinal BIGINT NOT NULL,
    -- How it is split: `none`, `column` or `row`.
    way VARCHAR NOT NULL,
    -- Into how many shards.
    parts BIGINT NOT NULL,
    -- Number of the shard, from 0.
    part BIGINT NOT NULL,
    -- The rank that has it, from 0.
    rank BIGINT NOT NULL
);
