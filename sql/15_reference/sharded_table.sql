-- Embedding tables that `tracedb shard` spreads over ranks: those of a file, or those that
-- were looked up in a step (`question.embedding_table`).
-- One row per table.
-- Key: ordinal.
CREATE TABLE reference.sharded_table (
    -- Place of the table in the model, from 0.
    ordinal BIGINT NOT NULL,
    -- Name.
    name VARCHAR NOT NULL,
    -- Rows.
    rows BIGINT NOT NULL,
    -- Elements of a row.
    width BIGINT NOT NULL,
    -- Rows that are looked up for an example, in the mean; they are summed.
    pooling DOUBLE NOT NULL,
    -- Type of the elements, as the kernel models name it.
    dtype VARCHAR NOT NULL,
    -- Bytes of an element.
    element_size BIGINT NOT NULL
);
