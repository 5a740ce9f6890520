-- Chains of causes in a step, followed from their ends backwards, as `critical_path.hop`
-- goes back from the step's end. Each lane that is active in the step (a thread, or a
-- stream with work launched in it) ends one, with its last top-level event there.
-- One row per hop of a chain, for the k chains that end latest.
-- Key: rank, hop.
CREATE MACRO critical_path.chain_hop(
    -- The step: its `step_id`.
    step,
    -- Number of chains.
    k
) AS TABLE
SELECT
    -- Position of the chain among the step's, from 1: the one that ends last.
    rank,
    -- [ns] End of the chain.
    chain_end_ns,
    -- Position on the chain, from 1 at its end.
    hop,
    -- The host thread along which the hop runs; NULL on a device.
    thread_id,
    -- GPU work that the hop passes; NULL on the host.
    gpu_op_id,
    -- [ns] Start of the hop: end of the next, or start of the step.
    from_ns,
    -- [ns] End of the hop.
    until_ns,
    -- What the previous hop waited for, as in `critical_path.hop`; `end` at the chain's
    -- end.
    reason
FROM (
    WITH RECURSIVE
    mark AS MATERIALIZED (
        SELECT trace_id, start_ns, end_ns FROM staging.step WHERE step_id = step
    ),

    lane_end AS (
        SELECT
            top_level_event.thread_id,
            NULL::BIGINT AS gpu_op_id,
            top_level_event.node_id,
            top_level_event.end_ns
        FROM graph.top_level_event
        INNER JOIN mark
            ON
                top_level_event.trace_id = mark.trace_id
                AND top_level_event.start_ns >= mark.start_ns
                AND top_level_event.start_ns < mark.end_ns
        QUALIFY
            row_number() OVER (
                PARTITION BY top_level_event.thread_id
                ORDER BY top_level_event.start_ns DESC, top_level_event.end_ns DESC
            ) = 1
        UNION ALL
        SELECT NULL, work.gpu_op_id, work.gpu_op_id, work.end_ns
        FROM graph.stream_position AS work
        INNER JOIN mark
            ON
                work.trace_id = mark.trace_id
                AND work.launch_start_ns >= mark.start_ns
                AND work.launch_start_ns < mark.end_ns
        QUALIFY
            row_number() OVER (PARTITION BY device, stream ORDER BY position DESC) = 1
    ),

    walk AS (
        SELECT
            rank,
            lane.end_ns AS chain_end_ns,
            1::BIGINT AS hop,
            coalesce(gpu_op_id, -latest.resume_id) AS node,
            lane.thread_id,
            gpu_op_id,
            lane.end_ns AS until_ns,
            'end' AS reason
        FROM (
            SELECT *, row_number() OVER (ORDER BY end_ns DESC, node_id) AS rank
            FROM lane_end
            QUALIFY rank <= k
        ) AS lane
        ASOF LEFT JOIN graph.last_resume AS latest
            ON lane.thread_id = latest.thread_id AND lane.end_ns >= latest.resume_ns
        UNION ALL
        SELECT
            rank,
            chain_end_ns,
            hop + 1,
            cause.cause_node,
            cause.thread_id,
            cause.gpu_op_id,
            least(walk.until_ns, cause.until_ns) AS next_until_ns,
            cause.reason
        FROM walk
        INNER JOIN critical_path.cause
            ON
                cause.trace_id = (SELECT trace_id FROM mark)
                AND walk.node = cause.node
        WHERE NOT is_run AND next_until_ns > (SELECT start_ns FROM mark)
    )

    SELECT
        * EXCLUDE (node),
        coalesce(
            lead(until_ns) OVER (PARTITION BY rank ORDER BY hop),
            (SELECT start_ns FROM mark)
        ) AS from_ns
    FROM walk
)
ORDER BY rank, hop;
