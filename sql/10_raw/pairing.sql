-- Which op or annotation of a trace corresponds to which node of an execution graph.
-- One row per matched event of a trace.
-- Key: event_id.
CREATE TABLE raw.pairing (
    -- The op or annotation in the profiler file.
    event_id BIGINT NOT NULL,
    -- The profiler file.
    trace_id BIGINT NOT NULL,
    -- The node in the execution graph.
    et_node_id BIGINT NOT NULL,
    -- Which occurrence of the execution graph in the profiler file, from 0.
    occurrence BIGINT NOT NULL
);
