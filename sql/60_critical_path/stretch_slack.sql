-- How much later each stretch may be before a step ends later: the least over all that
-- depends on it. A recursion from the ends of the steps backwards, over waits only.
-- One row per stretch.
-- Key: trace_id, lane, stretch.
CREATE TABLE critical_path.stretch_slack (
    -- The trace it is from.
    trace_id,
    -- Lane: a thread, or minus the first work of a stream; 0 for the ends of steps.
    lane,
    -- Stretch of the lane: a moment of the thread, 0 before the first, or GPU work.
    stretch,
    -- [ns] Slack; NULL where no step depends on it.
    slack_ns
) AS
WITH RECURSIVE
-- As in segment_time: a stretch of which all edges are known is passed on, the others
-- are carried along.
known (trace_id, lane, stretch, slack_ns, edges, edge_count) AS (
    SELECT DISTINCT trace_id, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT
    FROM critical_path.slack_edge
    WHERE trace_id IN (SELECT trace_id FROM staging.computing)
    UNION ALL
    SELECT
        target.trace_id,
        coalesce(edge.lane, target.lane),
        coalesce(edge.stretch, target.stretch),
        min(target.slack_ns + coalesce(edge.slack_ns, 0)),
        sum(CASE WHEN edge.kind IS NULL THEN target.edges ELSE 1 END)::BIGINT,
        any_value(coalesce(edge.edge_count, target.edge_count))
    FROM (
        -- Where none is passed on any more, the rest waits in a circle.
        SELECT *, bool_or(edges = edge_count) OVER () AS goes_on
        FROM known
    ) AS target
    LEFT JOIN critical_path.slack_edge AS edge
        ON
            target.edges = target.edge_count
            AND target.trace_id = edge.trace_id
            AND target.lane = edge.target_lane
            AND target.stretch = edge.target_stretch
    WHERE goes_on AND (edge.kind IS NOT NULL OR target.edges < target.edge_count)
    GROUP BY ALL
)

SELECT
    trace_id,
    lane,
    stretch,
    CASE WHEN slack_ns < 500_000_000_000_000_000 THEN slack_ns END
FROM known
WHERE edges = edge_count;
