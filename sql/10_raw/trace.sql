-- The files that were ingested, one profiler file or execution graph each.
-- One row per file, or process of a file with several.
-- Key: trace_id.
CREATE TABLE raw.trace (
    -- Number of the file in this database, from 1.
    trace_id BIGINT PRIMARY KEY,
    -- The run: everything recorded together, on all ranks.
    run_id BIGINT NOT NULL,
    -- Path as given to ingest; of a file with several processes, with `#` and the process or
    -- its rank.
    path VARCHAR NOT NULL,
    -- `kineto` if it has events, including those of other profilers (named in
    -- `staging.recording.profiler`); `et` for execution graphs.
    format VARCHAR NOT NULL,
    -- SHA-256 of the file's decompressed text; a file is ingested only once.
    sha256 VARCHAR NOT NULL,
    -- Everything in the file besides its events or nodes, as JSON. Of a process of a merged
    -- file, `distributedInfo` describes its own rank.
    header JSON NOT NULL,
    -- Number of its events or nodes.
    event_count BIGINT NOT NULL,
    -- The trace whose ops the execution graph describes, if the two were matched.
    paired_trace_id BIGINT,
    -- What the match of the execution graph is based on, or why there is none.
    pairing VARCHAR,
    -- Regular expression for the step marks, given by the user.
    step_mark VARCHAR,
    -- Regular expression for the ranges that start a step, given by the user: a step lasts
    -- from the start of one to the start of the next.
    step_from VARCHAR,
    -- Whether the user takes the whole trace as one step.
    is_one_step BOOLEAN
);
