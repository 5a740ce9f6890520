-- Chains of causes in a step, walked from their ends backwards as `critical_path.hop` walks
-- from the step's end. Each lane that is active in the step (a thread, or a stream with
-- work launched in it) ends one, with its last activity there.
-- One row per hop of a chain, for the k chains that end latest.
-- Key: rank, hop.
CREATE MACRO critical_path.chain_hop(
    -- The step: its `step_id`.
    step,
    -- How many chains.
    k
) AS TABLE
SELECT
    -- Place of the chain among the step's, from 1: the one that ends last.
    rank,
    -- [ns] End of the chain.
    chain_end_ns,
    -- Place on the chain, from 1 at its end.
    hop,
    -- Host thread that the hop runs along; NULL on a device.
    thread_id,
    -- GPU work that the hop passes; NULL on the host.
    kernel_id,
    -- [ns] Begin of the hop: end of the next, or begin of the step.
    from_ns,
    -- [ns] End of the hop.
    until_ns,
    -- What the hop before waited for, as in `critical_path.hop`; `end` at the chain's end.
    reason
FROM (
    WITH RECURSIVE
    mark AS MATERIALIZED (
        SELECT trace_id, start_ns, end_ns FROM staging.step WHERE step_id = step
    ),

    lane_end AS (
        SELECT
            activity.thread_id,
            NULL::BIGINT AS kernel_id,
            activity.node_id,
            activity.end_ns
        FROM graph.activity
        INNER JOIN mark
            ON
                activity.trace_id = mark.trace_id
                AND activity.start_ns >= mark.start_ns
                AND activity.start_ns < mark.end_ns
        QUALIFY
            row_number() OVER (
                PARTITION BY activity.thread_id
                ORDER BY activity.start_ns DESC, activity.end_ns DESC
            ) = 1
        UNION ALL
        SELECT NULL, work.kernel_id, work.kernel_id, work.end_ns
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
            coalesce(kernel_id, -latest.moment) AS node,
            lane.thread_id,
            kernel_id,
            lane.end_ns AS until_ns,
            'end' AS reason
        FROM (
            SELECT *, row_number() OVER (ORDER BY end_ns DESC, node_id) AS rank
            FROM lane_end
            QUALIFY rank <= k
        ) AS lane
        ASOF LEFT JOIN graph.last_moment AS latest
            ON lane.thread_id = latest.thread_id AND lane.end_ns >= latest.resume_ns
        UNION ALL
        SELECT
            rank,
            chain_end_ns,
            hop + 1,
            cause.cause_node,
            cause.thread_id,
            cause.kernel_id,
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
