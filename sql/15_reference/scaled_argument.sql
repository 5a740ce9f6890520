-- Arguments of ops at another batch size, for scenarios that request one; filled in a side
-- database, for one prediction.
-- One row per requested batch size, and op that launches GPU work or computes on the host.
-- Key: to_batch, from_batch, op_id.
CREATE TABLE reference.scaled_argument (
    -- The requested batch size.
    to_batch BIGINT NOT NULL,
    -- The recorded batch size given in the edit; 0: none.
    from_batch BIGINT NOT NULL,
    -- The op.
    op_id BIGINT NOT NULL,
    -- The trace.
    trace_id BIGINT NOT NULL,
    -- The batch size with which its trace was recorded.
    recorded_batch BIGINT NOT NULL,
    -- How it is known which sizes scale with the batch: `given` (it is the recorded one),
    -- `runs` (other runs with other batch sizes have the same ops) or `inferred` (from the
    -- recording's own ops).
    sizes_from VARCHAR NOT NULL,
    -- What is unknown of its sizes at that batch size; NULL: everything is known.
    unknown VARCHAR,
    -- New dimensions of its arguments, as a JSON list of lists; NULL: as recorded.
    input_dims VARCHAR,
    -- New dimensions of its results; NULL: as recorded.
    output_dims VARCHAR,
    -- New values of its scalar arguments; NULL: as recorded.
    concrete_inputs VARCHAR,
    -- [1] New number of elements of its arguments, divided by the recorded one.
    size_share DOUBLE NOT NULL
);
