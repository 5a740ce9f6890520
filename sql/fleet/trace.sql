-- The traces of a lake, from its manifest.
-- One row per trace.
-- Key: trace_id.
CREATE TABLE fleet.trace (
    -- Number of the trace in the lake.
    trace_id BIGINT,
    -- Its run.
    run VARCHAR,
    -- Its rank.
    rank BIGINT,
    -- The host on which it was recorded: from the file name, as written by PyTorch's
    -- TensorBoard handler (`host_123.456.pt.trace.json`); NULL for other names.
    host VARCHAR
);
