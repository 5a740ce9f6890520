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
-- Segments by what is known of them. One of which all edges are known begins, and is
-- known to those that it leads to; the others are carried along. So each is left once.
known (rung, trace_id, lane, segment, begin_ns, edges, all_edges) AS (
    SELECT DISTINCT rung, trace_id, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT
    FROM critical_path.segment_edge
    WHERE trace_id IN (SELECT trace_id FROM staging.computing)
    UNION ALL
    SELECT
        source.rung,
        source.trace_id,
        coalesce(edge.target_lane, source.lane),
        coalesce(edge.target_segment, source.segment),
        max(source.begin_ns + coalesce(edge.weight_ns, 0)),
        sum(CASE WHEN edge.kind IS NULL THEN source.edges ELSE 1 END)::BIGINT,
        any_value(coalesce(edge.target_edges, source.all_edges))
    FROM (
        -- Where none begins any more, the rest waits in a circle.
        SELECT *, bool_or(edges = all_edges) OVER () AS goes_on
        FROM known
    ) AS source
    LEFT JOIN critical_path.segment_edge AS edge
        ON
            source.edges = source.all_edges
            AND source.rung = edge.rung
            AND source.trace_id = edge.trace_id
            AND source.lane = edge.source_lane
            AND source.segment = edge.source_segment
    WHERE goes_on AND (edge.kind IS NOT NULL OR source.edges < source.all_edges)
    GROUP BY ALL
)

SELECT rung, trace_id, lane, segment, begin_ns
FROM known
WHERE edges = all_edges;
