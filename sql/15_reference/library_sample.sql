-- Overheads of other databases for a prediction to learn from, from a file written by
-- `tracedb overheads learn`, or the host times that ship with tracedb; filled in a side
-- database, for one prediction.
-- One row per span of host time.
-- Key: trace_sha256, thread, position.
CREATE TABLE reference.library_sample (
    -- SHA-256 of the text of that trace.
    trace_sha256 VARCHAR NOT NULL,
    -- The same for the first trace of its run.
    run_sha256 VARCHAR NOT NULL,
    -- Name of the GPU; NULL if the trace does not name one.
    gpu VARCHAR,
    -- Number of the thread within its trace, from 1.
    thread BIGINT NOT NULL,
    -- Position of the span on its thread.
    position BIGINT NOT NULL,
    -- Number of the step within its trace, from 1.
    step BIGINT NOT NULL,
    -- Overhead type, T1..T5.
    type VARCHAR NOT NULL,
    -- Further properties for finding similar spans, as in `overhead.sample`.
    name VARCHAR NOT NULL,
    -- Role of the host thread.
    role VARCHAR NOT NULL,
    -- The op that the span or the call belongs to.
    shapes VARCHAR NOT NULL,
    -- Number of earlier spans of its type and name in the step on its thread.
    ordinal BIGINT NOT NULL,
    -- Number of spans of its type and name in the step on its thread.
    ordinal_count BIGINT NOT NULL,
    -- [ns] Duration.
    sample_ns BIGINT NOT NULL
);
