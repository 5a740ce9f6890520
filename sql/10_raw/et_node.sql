-- Nodes of execution graphs, as PyTorch wrote them; no field is dropped.
-- One row per node.
-- Key: et_node_id.
CREATE TABLE raw.et_node (
    -- Number of the node in this database, in the order of the file.
    et_node_id BIGINT NOT NULL,
    -- The file.
    trace_id BIGINT NOT NULL,
    -- The node, complete, as JSON text.
    node JSON NOT NULL USING COMPRESSION zstd
);
