-- When each segment begins: the longest path to it from the origin of the trace. This is
-- the one recursion of the simulation; it goes over waits only, for all rungs at once.
-- One row per rung and segment.
-- Key: rung, trace_id, lane, segment.
CREATE TABLE critical_path.segment_time (
    -- `replay`, `statistics` or `full`.
    rung,
    -- The trace it is from.
    trace_id,
    -- Lane: a thread, minus the first work of a stream, or 0, the origin.
    lane,
    -- Segment of that lane.
    segment,
    -- [ns] Begin, from the begin of the trace.
    begin_ns
) AS
WITH RECURSIVE
edge AS MATERIALIZED (
    FROM critical_path.segment_edge
    WHERE trace_id IN (SELECT trace_id FROM staging.computing)
),

reached (rung, trace_id, lane, segment, begin_ns)
USING KEY (rung, trace_id, lane, segment, max(begin_ns)) AS (
    SELECT DISTINCT rung, trace_id, 0::BIGINT, 0::BIGINT, 0::BIGINT
    FROM edge
    UNION
    SELECT
        edge.rung,
        edge.trace_id,
        edge.target_lane,
        edge.target_segment,
        reached.begin_ns + edge.weight_ns
    FROM reached
    INNER JOIN edge
        ON
            reached.rung = edge.rung
            AND reached.trace_id = edge.trace_id
            AND reached.lane = edge.source_lane
            AND reached.segment = edge.source_segment
)

SELECT rung, trace_id, lane, segment, begin_ns
FROM reached;
