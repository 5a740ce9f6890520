-- When each node begins and ends in the simulation: GPU work as simulated, ops, calls and
-- user ranges at that share of the piece of host time at which they were measured.
-- One row per scenario, rung and node.
-- Key: scenario, rung, node_id.
CREATE VIEW critical_path.node_time (
    -- The scenario; `baseline` edits nothing.
    scenario,
    -- The rung, as in `prediction.rung`.
    rung,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The node, as in `graph.node`.
    node_id,
    -- [ns] Begin, from the begin of the trace.
    start_ns,
    -- [ns] End, from the begin of the trace.
    end_ns
) AS
WITH
-- Begins lie in the piece that begins then or before, ends in the one that ends then or
-- later.
placed AS (
    SELECT
        node.run_id,
        node.trace_id,
        node_id,
        node.thread_id,
        first.position AS first_position,
        (node.start_ns - first.start_ns) / (first.end_ns - first.start_ns) AS first_share,
        last.position AS last_position,
        (node.end_ns - last.start_ns) / (last.end_ns - last.start_ns) AS last_share
    FROM graph.node AS node
    ASOF INNER JOIN overhead.timeline AS first
        ON node.thread_id = first.thread_id AND node.start_ns >= first.start_ns
    ASOF INNER JOIN overhead.timeline AS last
        ON node.thread_id = last.thread_id AND node.end_ns <= last.end_ns
)

SELECT
    first.scenario,
    first.rung,
    placed.run_id,
    placed.trace_id,
    node_id,
    first.start_ns + round(first_share * (first.end_ns - first.start_ns))::BIGINT,
    last.start_ns + round(last_share * (last.end_ns - last.start_ns))::BIGINT
FROM placed
INNER JOIN critical_path.host_piece_time AS first
    ON placed.thread_id = first.thread_id AND first_position = first.position
INNER JOIN critical_path.host_piece_time AS last
    ON
        first.scenario = last.scenario
        AND first.rung = last.rung
        AND placed.thread_id = last.thread_id
        AND last_position = last.position
UNION ALL
SELECT scenario, rung, run_id, trace_id, kernel_id, start_ns, end_ns
FROM critical_path.gpu_work_time;
