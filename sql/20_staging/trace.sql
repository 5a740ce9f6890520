-- Ingested files with the information from their headers; times of a trace start at its
-- time base.
-- One row per file, or process of a file with several.
-- Key: trace_id.
CREATE VIEW staging.trace (
    -- Number of the file in this database.
    trace_id,
    -- The run it belongs to.
    run_id,
    -- Path as given to ingest; of a file with several processes, with `#` and the process or
    -- its rank.
    path,
    -- `kineto` if it has events, including those of other profilers (named in
    -- `staging.recording.profiler`); `et` for execution graphs.
    format,
    -- SHA-256 of the file's decompressed text.
    sha256,
    -- Rank in the distributed job: from the header, otherwise from the names of the file
    -- and its folder; not below 0.
    rank,
    -- Number of ranks of the distributed job, if the header states it; NULL if that is not
    -- more than the rank.
    world_size,
    -- Backend of the distributed job, if the header states it.
    backend,
    -- [ns] Absolute time (since 1970) at which the times of the trace start; 0 if it is not
    -- between 1970 and 2043, as for 2^61: sums of three such times fit into 64 bits.
    base_ns,
    -- Version of the format.
    schema_version,
    -- Name of the first device in the header.
    device_name,
    -- How many devices the header describes: those of its node.
    described_count,
    -- Number of events or nodes.
    event_count,
    -- Whether External id of calls and GPU work is the correlation instead of the op's id.
    external_id_is_correlation,
    -- For an execution graph: the trace whose ops it describes.
    paired_trace_id,
    -- For an execution graph: what the match is based on, or why there is none.
    pairing
) AS
WITH
-- As in `dp0_tp1_rank3.json`, `rank_3/trace.json` and `worker3.json`.
named AS (
    SELECT
        trace_id,
        coalesce(
            try_cast(regexp_extract(
                concat(name, '/', folder), '(?:^|[^a-z])rank[-_]?([0-9]+)', 1
            ) AS BIGINT),
            try_cast(regexp_extract(
                name, '(?:^|[^a-z])(?:worker|tp)[-_]?([0-9]+)', 1
            ) AS BIGINT)
        ) AS named_rank
    FROM (
        SELECT
            trace_id,
            lower(parse_filename(path)) AS name,
            lower(list_extract(parse_path(path), -2)) AS folder
        FROM raw.trace
    )
),

header_field AS (
    SELECT
        *,
        try_cast(header ->> '$.distributedInfo.world_size' AS INTEGER)::BIGINT AS ranks,
        try_cast(header ->> '$.distributedInfo.rank' AS BIGINT) AS given_rank,
        try_cast(header ->> '$.baseTimeNanoseconds' AS BIGINT) AS base
    FROM raw.trace
),

identified AS (
    SELECT trace_id, avg((correlation = external_id)::INTEGER) >= 0.99 AS is_correlation
    FROM staging.call
    GROUP BY trace_id
)

SELECT
    trace_id,
    run_id,
    path,
    format,
    sha256,
    coalesce(
        CASE WHEN given_rank >= 0 THEN given_rank END,
        named_rank
    ),
    CASE WHEN ranks > greatest(coalesce(given_rank, 0), 0) THEN ranks END,
    header ->> '$.distributedInfo.backend',
    CASE WHEN base BETWEEN 0 AND 2_305_843_009_213_693_952 THEN base ELSE 0 END,
    coalesce(header ->> '$.schemaVersion', header ->> '$.schema'),
    header ->> '$.deviceProperties[0].name',
    coalesce(json_array_length(header, '$.deviceProperties'), 0)::BIGINT,
    event_count,
    coalesce(is_correlation, false),
    paired_trace_id,
    pairing
FROM header_field
INNER JOIN named USING (trace_id)
LEFT JOIN identified USING (trace_id);
