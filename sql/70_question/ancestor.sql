-- What had to start or end before a node could start (or, for a call that waits, could
-- end)? Everything that leads to it along `graph.step_edge`, within its step. For a user
-- range, query its first top-level event. Needs DuckDB 2.0.
-- One row per node that it depends on.
-- Key: node_id.
CREATE MACRO question.ancestor(
    -- The dependent node.
    node
) AS TABLE
SELECT
    -- The node it depends on.
    node_id,
    -- Smallest number of edges between them.
    distance,
    -- Kind of the edge by which the node is first reached, as in `graph.step_edge`.
    kind,
    -- Whether the trace records that edge; otherwise it is inferred.
    recorded,
    -- Node at the other end of that edge: the queried node, or a closer one.
    next_node_id,
    -- Whether the node had to end; otherwise it only had to start.
    is_over
FROM (
    WITH RECURSIVE
    edge AS MATERIALIZED (FROM graph.step_edge(node)),

    seed AS (
        SELECT coalesce(top_level_event.node_id, asked.node_id) AS node_id
        FROM (SELECT node::BIGINT AS node_id) AS asked
        LEFT JOIN staging.annotation AS user_range
            ON asked.node_id = user_range.annotation_id
        LEFT JOIN graph.top_level_event
            ON
                user_range.thread_id = top_level_event.thread_id
                AND user_range.start_ns <= top_level_event.start_ns
                AND user_range.end_ns > top_level_event.start_ns
        ORDER BY top_level_event.start_ns
        LIMIT 1
    ),

    -- The way to a node is the one with the fewest edges; `endpoint` is the endpoint that
    -- matters.
    walk (node_id, endpoint, way) USING KEY (node_id, endpoint, min(way)) AS (
        SELECT
            node_id,
            'end',
            {
                'distance': 0::BIGINT,
                'kind': '',
                'next_node_id': 0::BIGINT,
                'recorded': true
            }
        FROM seed
        UNION
        SELECT
            edge.source_node_id,
            edge.source_endpoint,
            {
                'distance': walk.way.distance + 1,
                'kind': edge.kind,
                'next_node_id': walk.node_id,
                'recorded': edge.recorded
            }
        FROM walk
        INNER JOIN edge ON walk.node_id = edge.target_node_id
        WHERE
            (walk.endpoint = 'end' OR edge.target_endpoint = 'begin')
            -- What started in the node itself is not a cause of it.
            AND (walk.way.distance > 0 OR edge.kind <> 'within')
    )

    SELECT
        node_id,
        min(way).distance AS distance,
        min(way).kind AS kind,
        min(way).recorded AS recorded,
        min(way).next_node_id AS next_node_id,
        bool_or(endpoint = 'end') AS is_over
    FROM walk
    WHERE node_id NOT IN (SELECT node_id FROM seed)
    GROUP BY node_id
)
ORDER BY distance, node_id;
