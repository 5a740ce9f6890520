-- What can start (or, for a call that waits, end) only after a node has started or ended?
-- Everything that it leads to along `graph.step_edge`, within its step; a node is a
-- descendant of its ancestors. A user range includes what starts in it on its thread. Needs
-- DuckDB 2.0.
-- One row per node that depends on it.
-- Key: node_id.
CREATE MACRO question.descendant(
    -- The node they depend on.
    node
) AS TABLE
SELECT
    -- The dependent node.
    node_id,
    -- Smallest number of edges between them.
    distance,
    -- Kind of the edge by which the node is first reached, as in `graph.step_edge`.
    kind,
    -- Whether the trace records that edge; otherwise it is inferred.
    recorded,
    -- Node at the other end of that edge: the queried node, or a closer one.
    previous_node_id
FROM (
    WITH RECURSIVE
    edge AS MATERIALIZED (
        FROM graph.step_edge(node)
        UNION ALL
        SELECT user_range.annotation_id, top_level_event.node_id, 'nesting', true, 'begin', 'begin'
        FROM staging.annotation AS user_range
        INNER JOIN graph.top_level_event
            ON
                user_range.thread_id = top_level_event.thread_id
                AND user_range.start_ns <= top_level_event.start_ns
                AND user_range.end_ns > top_level_event.start_ns
        WHERE annotation_id = node
    ),

    -- The way to a node is the one with the fewest edges; `endpoint` is the first of its
    -- endpoints that comes after: if that is its end, what it led to at its start does not
    -- come after.
    walk (node_id, endpoint, way) USING KEY (node_id, endpoint, min(way)) AS (
        SELECT
            node::BIGINT,
            'begin',
            {
                'distance': 0::BIGINT,
                'kind': '',
                'previous_node_id': 0::BIGINT,
                'recorded': true
            }
        UNION
        SELECT
            edge.target_node_id,
            edge.target_endpoint,
            {
                'distance': walk.way.distance + 1,
                'kind': edge.kind,
                'previous_node_id': walk.node_id,
                'recorded': edge.recorded
            }
        FROM walk
        INNER JOIN edge ON walk.node_id = edge.source_node_id
        WHERE walk.endpoint = 'begin' OR edge.source_endpoint = 'end'
    )

    SELECT
        node_id,
        min(way).distance AS distance,
        min(way).kind AS kind,
        min(way).recorded AS recorded,
        min(way).previous_node_id AS previous_node_id
    FROM walk
    -- An enclosing op ends only after the node, but started before it.
    WHERE way.kind <> 'within' AND node_id <> node
    GROUP BY node_id
)
ORDER BY distance, node_id;
