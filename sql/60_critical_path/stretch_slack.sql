-- How much later each stretch may be without delaying the end of a step: the minimum over
-- everything that depends on it. A recursion from the ends of the steps backwards, only
-- over waits.
-- One row per stretch.
-- Key: trace_id, lane, stretch.
CREATE TABLE critical_path.stretch_slack (
    -- The trace.
    trace_id,
    -- Lane: a thread, or minus the first work of a stream; 0 for the ends of steps.
    lane,
    -- Stretch of the lane, as in `critical_path.slack_edge`.
    stretch,
    -- [ns] Slack; NULL if no step depends on it.
    slack_ns
) AS
WITH RECURSIVE
-- As in segment_time: rows of one stretch merge to the minimum slack over the known edges;
-- when all edges are known, it propagates.
known (trace_id, lane, stretch, slack_ns, edges, edge_count) USING KEY (
    trace_id, lane, stretch, min(slack_ns), sum(edges), max(edge_count)
) AS (
    SELECT DISTINCT trace_id, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT
    FROM critical_path.slack_edge
    WHERE trace_id IN (SELECT trace_id FROM staging.computing)
    UNION
    SELECT
        edge.trace_id,
        edge.lane,
        edge.stretch,
        min(target.slack_ns + edge.slack_ns),
        count(*),
        any_value(edge.edge_count)
    FROM known AS target
    INNER JOIN critical_path.slack_edge AS edge
        ON
            target.trace_id = edge.trace_id
            AND target.lane = edge.target_lane
            AND target.stretch = edge.target_stretch
    WHERE target.edges = target.edge_count
    GROUP BY ALL
)

SELECT
    trace_id,
    lane,
    stretch,
    CASE WHEN slack_ns < 500_000_000_000_000_000 THEN slack_ns END
FROM known
WHERE edges = edge_count;
