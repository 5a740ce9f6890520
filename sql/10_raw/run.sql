-- What was recorded together: the traces and execution graphs of all ranks.
-- One row per run.
-- Key: run_id.
CREATE TABLE raw.run (
    -- Number of the run in this database, from 1.
    run_id BIGINT PRIMARY KEY,
    -- Name given on ingest, or the name of its first file.
    name VARCHAR NOT NULL
);
