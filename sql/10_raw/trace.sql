-- The files that were ingested, one profiler file or execution graph each.
-- One row per file.
-- Key: trace_id.
CREATE TABLE raw.trace (
    -- Number of the file in this database, from 1.
    trace_id BIGINT PRIMARY KEY,
    -- The run that it belongs to: what was recorded together, all ranks.
    run_id BIGINT NOT NULL,
    -- Path as it was given.
    path VARCHAR NOT NULL,
    -- `kineto` where it has events, those of other profilers too (their names:
    -- `staging.recording.profiler`); `et` for execution graphs.
    format VARCHAR NOT NULL,
    -- SHA-256 of the file's text, however compressed; the same one is ingested once.
    sha256 VARCHAR NOT NULL,
    -- Everything in the file beside its events or nodes, as JSON.
    header JSON NOT NULL,
    -- Number of its events or nodes.
    event_count BIGINT NOT NULL,
    -- Trace whose ops the execution graph describes, when the two were matched.
    paired_trace_id BIGINT,
    -- What the match of the execution graph rests on, or why there is none.
    pairing VARCHAR,
    -- Regular expression that the user gave for the marks of its steps.
    step_mark VARCHAR,
    -- Regular expression that the user gave for the ranges that its steps begin with: a step
    -- lasts from the begin of one to that of the next.
    step_from VARCHAR
);
