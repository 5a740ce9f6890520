-- When each segment starts: the longest path to it from the origin of the trace. This is
-- the only recursion of the simulation; it follows only waits, for all variants at once.
-- One row per variant and segment.
-- Key: variant_id, trace_id, lane, segment.
CREATE TABLE simulation.segment_time (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- Lane: a thread, minus the first work of a stream, or 0, the origin.
    lane,
    -- Segment of that lane.
    segment,
    -- [ns] Start, from the start of the trace.
    begin_ns
) AS
WITH RECURSIVE
edge AS (
    FROM simulation.segment_edge
    WHERE trace_id IN (SELECT trace_id FROM staging.computing)
),

-- Segments with their known part: the latest of their known edges, and the number of
-- unknown ones, as a negative number. These aggregates merge rows with the same key; a
-- round sees the segments that the previous round updated. A segment whose edges are all
-- known starts, and updates those that it leads to. Segments that wait in a cycle never
-- start.
known (variant_id, trace_id, lane, segment, begin_ns, missing) USING KEY (
    variant_id, trace_id, lane, segment, max(begin_ns), sum(missing)
) AS (
    (
        SELECT
            variant_id, trace_id, target_lane, target_segment, NULL::BIGINT,
            -count(*)
        FROM edge
        GROUP BY ALL
        UNION ALL
        SELECT DISTINCT variant_id, trace_id, 0, 0, 0, 0
        FROM edge
    )
    UNION
    SELECT
        edge.variant_id,
        edge.trace_id,
        edge.target_lane,
        edge.target_segment,
        source.begin_ns + edge.weight_ns,
        1
    FROM known AS source
    INNER JOIN edge
        ON
            source.variant_id = edge.variant_id
            AND source.trace_id = edge.source_trace_id
            AND source.lane = edge.source_lane
            AND source.segment = edge.source_segment
    WHERE source.missing = 0
)

SELECT variant_id, trace_id, lane, segment, begin_ns
FROM known
WHERE missing = 0;
