-- The arguments of `tracedb shard` for distributing the tables of
-- `reference.sharded_table`.
-- One row per database, or none.
-- Key: ranks.
CREATE TABLE reference.sharding (
    -- Ranks, each with a GPU.
    ranks BIGINT NOT NULL,
    -- Row of `prediction.hardware`.
    hardware VARCHAR NOT NULL,
    -- Examples per rank and step.
    batch BIGINT NOT NULL,
    -- [B] Limit for the tables of a rank; NULL: its GPU's memory is unknown.
    limit_bytes BIGINT,
    -- Bytes of optimizer state per row.
    row_state_size BIGINT NOT NULL,
    -- Bytes of optimizer state per element.
    element_state_size BIGINT NOT NULL,
    -- Whether indices are sent in the step; otherwise they are present when it starts.
    sends_indices BOOLEAN NOT NULL
);
