-- What `tracedb shard` was asked for: where the tables of `reference.sharded_table` go.
-- One row per database, or none.
-- Key: ranks.
CREATE TABLE reference.sharding (
    -- Ranks, each with a GPU.
    ranks BIGINT NOT NULL,
    -- Row of `prediction.hardware`.
    hardware VARCHAR NOT NULL,
    -- Examples of a rank in a step.
    batch BIGINT NOT NULL,
    -- [B] What the tables of a rank may take; NULL: its GPU's memory is not known.
    limit_bytes BIGINT,
    -- Bytes that the optimizer keeps for each row.
    row_state_size BIGINT NOT NULL,
    -- Bytes that the optimizer keeps for each element.
    element_state_size BIGINT NOT NULL,
    -- Whether indices are sent in the step; else they are there when it begins.
    sends_indices BOOLEAN NOT NULL
);
