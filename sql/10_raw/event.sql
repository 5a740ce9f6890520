-- Events of profiler files, as the profiler wrote them; no field is dropped. Numbers in
-- `args` and `other` keep their values, not their notation (1E5 becomes 100000.0).
-- One row per event.
-- Key: event_id.
CREATE TABLE raw.event (
    -- Number of the event in this database, in the order of the file.
    event_id BIGINT NOT NULL,
    -- The file.
    trace_id BIGINT NOT NULL,
    -- Phase: X (has a duration), s and f (ends of a flow), i (instant), M (metadata).
    ph VARCHAR,
    -- Category.
    cat VARCHAR,
    -- Name.
    name VARCHAR,
    -- Process, or the device for GPU work; text in some files.
    pid VARCHAR,
    -- Thread, or the stream for GPU work; text in some files.
    tid VARCHAR,
    -- [ns] Time from the file's time base, from the decimal text.
    ts_ns BIGINT,
    -- [ns] Duration, from the decimal text.
    dur_ns BIGINT,
    -- Identifier shared by the ends of a flow.
    id VARCHAR,
    -- Arguments, complete, as JSON text.
    args JSON USING COMPRESSION zstd,
    -- All other fields, as JSON text.
    other JSON
);
