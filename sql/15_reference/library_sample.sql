-- Overheads of other databases that a prediction is to learn from, as `tracedb overheads
-- learn` wrote them into a file; filled beside a database, for one prediction.
-- One row per span of host time.
-- Key: trace_sha256, thread, position.
CREATE TABLE reference.library_sample (
    -- SHA-256 of the text of the trace that it is from.
    trace_sha256 VARCHAR NOT NULL,
    -- The same of the first trace of its run.
    run_sha256 VARCHAR NOT NULL,
    -- Name of the GPU; NULL where the trace names none.
    gpu VARCHAR,
    -- Number of the thread, among those of its trace, from 1.
    thread BIGINT NOT NULL,
    -- Position of the span on its thread.
    position BIGINT NOT NULL,
    -- Number of the step, among those of its trace, from 1.
    step BIGINT NOT NULL,
    -- Overhead type, T1..T5.
    type VARCHAR NOT NULL,
    -- What else the span may be alike in, as in `overhead.sample`.
    name VARCHAR NOT NULL,
    -- Role of the host thread.
    role VARCHAR NOT NULL,
    -- What the op or the call is for.
    shapes VARCHAR NOT NULL,
    -- How many of its type and name were before it in the step on its thread.
    ordinal BIGINT NOT NULL,
    -- How many of its type and name there are in the step on its thread.
    ordinal_count BIGINT NOT NULL,
    -- [ns] Duration.
    sample_ns BIGINT NOT NULL
);
