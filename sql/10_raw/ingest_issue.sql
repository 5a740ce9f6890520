-- What was repaired or dropped while reading a file.
-- One row per kind of issue and file.
-- Key: trace_id, kind.
CREATE TABLE raw.ingest_issue (
    -- The file.
    trace_id BIGINT NOT NULL,
    -- Kind of issue.
    kind VARCHAR NOT NULL,
    -- How often it occurred.
    occurrences BIGINT NOT NULL,
    -- [B] Place of the first one in the decompressed text, or of the chunk it is in.
    first_bytes BIGINT,
    -- One line for the reader.
    detail VARCHAR NOT NULL
);
