-- The dependencies among the nodes of one step, with the endpoints that each connects: what
-- had to start or end before what could start or end. These are the edges of `graph.edge`,
-- the order of consecutive events within one op, and the rule that an op ends only when
-- everything that started in it has ended. A node belongs to the step in which it starts,
-- GPU work to the one in which its launch starts. For a node in no step, its whole trace
-- counts as one.
-- One row per pair of nodes and kind.
-- Key: source_node_id, target_node_id, kind.
CREATE MACRO graph.step_edge(
    -- A node of the step.
    node
) AS TABLE
SELECT
    -- The node that comes first.
    source_node_id,
    -- The dependent node.
    target_node_id,
    -- As in `graph.edge`; `thread` also between consecutive events within an op; `within`
    -- from what started in an op to the op.
    kind,
    -- Whether the trace records it; otherwise it is inferred from order and times.
    recorded,
    -- `begin` if the first node only had to start, otherwise `end`: it had to end.
    source_endpoint,
    -- `begin` if the other node could only then start, otherwise `end`: could only then
    -- end.
    target_endpoint
FROM (
    WITH
    scope AS MATERIALIZED (FROM graph.step_around(node)),

    began AS (
        SELECT op_id AS node_id, trace_id, start_ns FROM staging.op
        UNION ALL
        SELECT call_id, trace_id, start_ns FROM staging.call
        UNION ALL
        SELECT
            work.gpu_op_id,
            work.trace_id,
            coalesce(launch.start_ns, work.start_ns)
        FROM staging.gpu_op AS work
        LEFT JOIN staging.call AS launch ON work.call_id = launch.call_id
        UNION ALL
        SELECT operation_id, trace_id, start_ns FROM staging.operation
    ),

    member AS MATERIALIZED (
        SELECT began.node_id
        FROM began
        INNER JOIN scope
            ON
                began.trace_id = scope.trace_id
                AND began.start_ns >= coalesce(scope.start_ns, began.start_ns)
                AND began.start_ns < coalesce(scope.end_ns, began.start_ns + 1)
    ),

    -- Ops and calls in an op, in order; nested calls belong to the outer one.
    inner_node AS (
        SELECT op_id AS node_id, parent_op_id AS around_id, start_ns, end_ns
        FROM staging.op
        WHERE NOT is_top_level AND NOT is_annotation
        UNION ALL
        SELECT call_id, staging.call.op_id, staging.call.start_ns, staging.call.end_ns
        FROM staging.call
        INNER JOIN graph.host_call USING (call_id)
        WHERE top_op_id IS NOT NULL
    ),

    edge AS (
        SELECT source_node_id, target_node_id, kind, recorded
        FROM graph.edge
        WHERE trace_id = (SELECT trace_id FROM scope)
        UNION ALL
        SELECT target_node_id, source_node_id, 'within', recorded
        FROM graph.edge
        WHERE kind = 'nesting' AND trace_id = (SELECT trace_id FROM scope)
        UNION ALL
        SELECT lag(node_id) OVER in_op AS source_node_id, node_id, 'thread', true
        FROM inner_node
        SEMI JOIN member USING (node_id)
        WINDOW in_op AS (PARTITION BY around_id ORDER BY start_ns, end_ns, node_id)
        QUALIFY lag(node_id) OVER in_op IS NOT NULL
    )

    SELECT
        *,
        CASE WHEN kind IN ('nesting', 'launch') THEN 'begin' ELSE 'end' END
        AS source_endpoint,
        CASE
            WHEN kind IN ('sync_stream', 'sync_device', 'sync_event', 'copy', 'queue', 'within')
                THEN 'end'
            ELSE 'begin'
        END AS target_endpoint
    FROM edge
    SEMI JOIN member AS source ON edge.source_node_id = source.node_id
    SEMI JOIN member AS target ON edge.target_node_id = target.node_id
);
