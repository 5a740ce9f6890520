-- Arguments of ops at another batch size, for scenarios that ask for one; filled beside a
-- database, for one prediction.
-- One row per batch size that is asked for, and op that launches GPU work or computes on the
-- host.
-- Key: to_batch, from_batch, op_id.
CREATE TABLE reference.scaled_argument (
    -- The batch size that is asked for.
    to_batch BIGINT NOT NULL,
    -- The recorded batch size that the edit names; 0: none.
    from_batch BIGINT NOT NULL,
    -- The op.
    op_id BIGINT NOT NULL,
    -- The trace it is from.
    trace_id BIGINT NOT NULL,
    -- The batch size that its trace was recorded with.
    recorded_batch BIGINT NOT NULL,
    -- What tells how sizes follow the batch: `given` (it is the recorded one), `runs` (others
    -- of other batch sizes do the same ops) or `inferred` (from what its own ops do).
    sizes_from VARCHAR NOT NULL,
    -- What is not known of its sizes at that batch size; NULL: they are all known.
    unknown VARCHAR,
    -- Dimensions of its arguments then, as a JSON list of lists; NULL: as recorded.
    input_dims VARCHAR,
    -- Dimensions of its results then; NULL: as recorded.
    output_dims VARCHAR,
    -- Values of its scalar arguments then; NULL: as recorded.
    concrete_inputs VARCHAR,
    -- [1] Elements of its arguments then, over those recorded.
    size_share DOUBLE NOT NULL
);
