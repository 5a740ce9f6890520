-- Where plans place the shards of tables (`prediction.embedding_shard`). To add your own
-- plan, insert rows with its name: `question.sharding` evaluates it like the others.
-- One row per plan, split and shard.
-- Key: plan, split, ordinal, part.
CREATE TABLE reference.shard_placement (
    -- How shards are assigned to ranks: `naive` (round-robin), `size`, `lookups` and `cost`
    -- (the largest first, each to the rank with the least of that) or `searched`.
    plan VARCHAR NOT NULL,
    -- Which tables are split: `none`; by `column` or by `row`, those too large or too slow
    -- for a rank; or `any`, chosen by the search.
    split VARCHAR NOT NULL,
    -- The table.
    ordinal BIGINT NOT NULL,
    -- The split: `none`, `column` or `row`.
    way VARCHAR NOT NULL,
    -- Number of shards of the table.
    parts BIGINT NOT NULL,
    -- Number of the shard, from 0.
    part BIGINT NOT NULL,
    -- The rank that holds it, from 0.
    rank BIGINT NOT NULL
);
