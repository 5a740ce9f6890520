-- How much later each stretch may be without delaying the end of a step of the run: the
-- minimum over everything that depends on it, on all ranks; like
-- `critical_path.stretch_slack`.
-- One row per place of a run with several ranks.
-- Key: trace_id, lane, stretch.
CREATE VIEW critical_path.run_stretch_slack (
    -- The trace; 0 for a collective at which all ranks have arrived.
    trace_id,
    -- Lane, as in `critical_path.run_slack_edge`.
    lane,
    -- Stretch of the lane, likewise.
    stretch,
    -- [ns] Slack; NULL if no step depends on it.
    slack_ns
) AS
WITH RECURSIVE
edge AS MATERIALIZED (FROM critical_path.run_slack_edge),

known (trace_id, lane, stretch, slack_ns, edges, edge_count) USING KEY (
    trace_id, lane, stretch, min(slack_ns), sum(edges), max(edge_count)
) AS (
    SELECT 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT
    UNION
    SELECT
        edge.trace_id,
        edge.lane,
        edge.stretch,
        min(target.slack_ns + edge.slack_ns),
        count(*),
        any_value(edge.edge_count)
    FROM known AS target
    INNER JOIN edge
        ON
            target.trace_id = edge.target_trace_id
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
WHERE edges = edge_count AND (lane, stretch) <> (0, 0);
