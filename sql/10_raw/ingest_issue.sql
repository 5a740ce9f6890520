-- What was repaired or left out while reading a file.
-- One row per kind of issue and file.
-- Key: trace_id, kind.
CREATE TABLE raw.ingest_issue (
    -- The file.
    trace_id BIGINT NOT NULL,
    -- Kind of issue.
    kind VARCHAR NOT NULL,
    -- How often it occurred.
    occurrences BIGINT NOT NULL,
    -- [B] Offset of the first occurrence in the decompressed text, if known.
    first_bytes BIGINT,
    -- One line for the reader.
    detail VARCHAR NOT NULL
);
