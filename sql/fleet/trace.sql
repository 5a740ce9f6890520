-- The traces of a lake, as its manifest has them.
-- One row per trace.
-- Key: trace_id.
CREATE TABLE fleet.trace (
    -- Number of the trace in the lake.
    trace_id BIGINT,
    -- Its run.
    run VARCHAR,
    -- Its rank.
    rank BIGINT,
    -- The host that it was recorded on: from the name of the file, as PyTorch's handler for
    -- TensorBoard makes it (`host_123.456.pt.trace.json`); NULL if it is another.
    host VARCHAR
);
