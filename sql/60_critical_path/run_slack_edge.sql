-- How a delay propagates in a run with several ranks: like `critical_path.slack_edge`,
-- except that a collective on GPUs starts at a place of its own. A rank may arrive at it
-- later until the last one does; from there on all ranks are delayed, apart from sends that
-- do not wait. A step ends with its last rank.
-- One row per place and place that depends on it; one `origin` for each.
-- Key: trace_id, lane, stretch, target_trace_id, target_lane, target_stretch, kind.
CREATE VIEW critical_path.run_slack_edge (
    -- The trace; 0 for a collective at which all ranks have arrived.
    trace_id,
    -- Lane, as in `critical_path.slack_edge`; 0 for such a collective.
    lane,
    -- Stretch of the lane; for one that ends with a collective, minus that for the start of
    -- the collective; for one at which all have arrived, the kernel that came last.
    stretch,
    -- Trace of what depends on it, likewise; 0 also for the end of a step.
    target_trace_id,
    -- Lane of that; 0 for the end of a step.
    target_lane,
    -- Stretch of that lane; 0 for the end of a step.
    target_stretch,
    -- As in `critical_path.slack_edge`, or `arrival` (at a collective) or `collective`
    -- (which delays all ranks).
    kind,
    -- [ns] How long the delay may be; for `origin` more than any.
    slack_ns,
    -- Number of edges of the place.
    edge_count
) AS
WITH
met_collective AS MATERIALIZED (
    SELECT
        collective.trace_id,
        lane,
        node_id,
        last_node_id,
        is_eager,
        CASE
            WHEN is_eager
                THEN max(last_arrival_ns + shift_ns) OVER (PARTITION BY last_node_id)
                - last_arrival_ns - shift_ns
            ELSE waiting_ns
        END AS waiting_ns
    FROM graph.collective AS collective
    INNER JOIN critical_path.stream_stretch ON node_id = gpu_op_id
    INNER JOIN critical_path.run_trace AS trace ON collective.trace_id = trace.trace_id
),

edge AS (
    SELECT
        edge.trace_id,
        edge.lane,
        stretch,
        edge.trace_id AS target_trace_id,
        target_lane,
        CASE WHEN met_collective.node_id IS NULL THEN 1 ELSE -1 END * target_stretch
        AS target_stretch,
        kind,
        slack_ns
    FROM critical_path.slack_edge AS edge
    SEMI JOIN critical_path.run_trace AS trace ON edge.trace_id = trace.trace_id
    LEFT JOIN met_collective ON target_lane = met_collective.lane AND target_stretch = met_collective.node_id
    WHERE kind NOT IN ('origin', 'end')
    UNION ALL
    SELECT trace_id, lane, -node_id, 0, 0, last_node_id, 'arrival', waiting_ns
    FROM met_collective
    UNION ALL
    SELECT
        CASE WHEN is_eager THEN trace_id ELSE 0 END,
        CASE WHEN is_eager THEN lane ELSE 0 END,
        CASE WHEN is_eager THEN -node_id ELSE last_node_id END,
        trace_id, lane, node_id, 'collective', 0
    FROM met_collective
    UNION ALL
    SELECT run_end.trace_id, thread_id, resume_id, 0, 0, 0, 'end', run_end.slack_ns
    FROM critical_path.run_end AS run_end
    INNER JOIN critical_path.host_successor AS successor USING (trace_id, thread_id)
    WHERE kind = 'end' AND at_ns = end_ns
    UNION ALL
    SELECT run_end.trace_id, lane, gpu_op_id, 0, 0, 0, 'end', run_end.slack_ns
    FROM critical_path.run_end AS run_end
    INNER JOIN critical_path.stream_stretch USING (gpu_op_id)
),

least_edge AS MATERIALIZED (
    SELECT
        trace_id, lane, stretch, target_trace_id, target_lane, target_stretch, kind,
        min(slack_ns) AS slack_ns
    FROM edge
    GROUP BY ALL
),

place AS (
    SELECT trace_id, lane, stretch FROM least_edge
    UNION
    SELECT target_trace_id, target_lane, target_stretch FROM least_edge
    WHERE target_stretch <> 0 OR target_lane <> 0
)

SELECT
    trace_id, lane, stretch, target_trace_id, target_lane, target_stretch, kind, slack_ns,
    count(*) OVER (PARTITION BY trace_id, lane, stretch)
FROM (
    FROM least_edge
    UNION ALL
    SELECT
        trace_id, lane, stretch, 0, 0, 0, 'origin', 1_000_000_000_000_000_000
    FROM place
);
