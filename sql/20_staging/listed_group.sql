-- Process groups of a rank, in the order in which they were made, as PyTorch lists them
-- since 2.3.
-- One row per group in a trace.
-- Key: trace_id, position.
CREATE VIEW staging.listed_group (
    -- The trace.
    trace_id,
    -- Position in the list, from 1.
    position,
    -- Name.
    name,
    -- Its ranks, as numbers among all ranks of the job; NULL if not readable.
    ranks,
    -- The ranks as written.
    ranks_text,
    -- Number of ranks, if listed.
    group_size,
    -- Backends, such as `cpu:gloo,cuda:nccl`, if listed.
    backends
) AS
SELECT
    trace_id,
    position,
    listed ->> '$.pg_name',
    try_cast((listed -> '$.ranks') AS BIGINT []),
    listed ->> '$.ranks',
    try_cast(listed ->> '$.pg_size' AS INTEGER),
    listed ->> '$.backend_config'
FROM (
    SELECT trace_id, unnest(groups) AS listed, generate_subscripts(groups, 1) AS position
    FROM (
        SELECT
            trace_id,
            try_cast((header -> '$.distributedInfo.pg_config') AS JSON []) AS groups
        FROM raw.trace
    )
);
