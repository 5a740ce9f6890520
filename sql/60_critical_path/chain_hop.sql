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

    latest AS (
        SELECT thread_id, resume_ns, max(moment) AS moment
        FROM graph.host_cause
        WHERE trace_id = (SELECT trace_id FROM mark)
        GROUP BY thread_id, resume_ns
    ),

    host AS MATERIALIZED (
        SELECT moment, cause, resume_ns, cause_thread_id, cause_moment, cause_kernel_id
        FROM graph.host_cause
        WHERE trace_id = (SELECT trace_id FROM mark)
    ),

    gpu AS MATERIALIZED (
        SELECT
            work.kernel_id,
            gpu_cause.cause,
            gpu_cause.cause_kernel_id,
            CASE WHEN cause = 'launch' THEN work.launch_thread_id END AS cause_thread_id,
            CASE WHEN cause = 'launch' THEN latest.moment END AS cause_moment,
            CASE
                WHEN cause = 'launch' THEN least(gpu_cause.cause_ns, work.start_ns)
                ELSE work.start_ns
            END AS from_ns
        FROM graph.stream_position AS work
        INNER JOIN graph.gpu_cause ON work.kernel_id = gpu_cause.kernel_id
        ASOF LEFT JOIN latest
            ON
                work.launch_thread_id = latest.thread_id
                AND work.launch_start_ns >= latest.resume_ns
        WHERE work.trace_id = (SELECT trace_id FROM mark)
    ),

    walk AS (
        SELECT
            rank,
            lane.end_ns AS chain_end_ns,
            1::BIGINT AS hop,
            lane.thread_id,
            latest.moment,
            kernel_id,
            lane.end_ns AS until_ns,
            'end' AS reason
        FROM (
            SELECT *, row_number() OVER (ORDER BY end_ns DESC, node_id) AS rank
            FROM lane_end
            QUALIFY rank <= k
        ) AS lane
        ASOF LEFT JOIN latest
            ON lane.thread_id = latest.thread_id AND lane.end_ns >= latest.resume_ns
        UNION ALL
        SELECT
            rank,
            chain_end_ns,
            hop + 1,
            coalesce(host.cause_thread_id, gpu.cause_thread_id),
            coalesce(host.cause_moment, gpu.cause_moment),
            coalesce(host.cause_kernel_id, gpu.cause_kernel_id),
            least(until_ns, host.resume_ns, gpu.from_ns) AS next_until_ns,
            coalesce(host.cause, gpu.cause)
        FROM walk
        LEFT JOIN host ON walk.kernel_id IS NULL AND walk.moment = host.moment
        LEFT JOIN gpu ON walk.kernel_id = gpu.kernel_id
        WHERE
            coalesce(host.cause, gpu.cause, 'none') <> 'none'
            AND next_until_ns > (SELECT start_ns FROM mark)
    )

    SELECT
        * EXCLUDE (moment),
        coalesce(
            lead(until_ns) OVER (PARTITION BY rank ORDER BY hop),
            (SELECT start_ns FROM mark)
        ) AS from_ns
    FROM walk
)
ORDER BY rank, hop;
