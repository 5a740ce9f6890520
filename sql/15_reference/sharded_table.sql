-- Embedding tables that `tracedb shard` distributes over ranks: those of a file, or those
-- looked up in a step (`question.embedding_table`).
-- One row per table.
-- Key: ordinal.
CREATE TABLE reference.sharded_table (
    -- Position of the table in the model, from 0.
    ordinal BIGINT NOT NULL,
    -- Name.
    name VARCHAR NOT NULL,
    -- Rows.
    rows BIGINT NOT NULL,
    -- Elements per row.
    width BIGINT NOT NULL,
    -- Mean number of rows looked up per example; they are summed.
    pooling DOUBLE NOT NULL,
    -- Type of the elements, as the kernel models name it.
    dtype VARCHAR NOT NULL,
    -- Bytes per element.
    element_size BIGINT NOT NULL
);
