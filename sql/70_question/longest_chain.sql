-- Which chains of causes end last in a step? Each lane that is active in the step (a
-- thread, or a stream with work launched in it) ends one chain: from its last top-level
-- event back along what was waited for, as `critical_path.hop` goes back from the step's
-- end, to the start of the step. The k chains that end latest, each from its start to its
-- end.
-- One row per chain and node on it; an op that the chain leaves and returns to appears
-- again.
-- Key: rank, position.
CREATE MACRO question.longest_chain(
    -- The step: its `step_id`.
    step,
    -- Number of chains.
    k
) AS TABLE
SELECT
    -- Position of the chain among the step's, from 1: the one that ends last.
    rank,
    -- [ns] Time of the chain in which something runs: ops, calls and GPU work, without
    -- waits, delays and gaps.
    chain_ns,
    -- [ns] End of the chain.
    chain_end_ns,
    -- Position of the node on its chain, from 1 at the start.
    position,
    -- Top-level op, call outside ops, or GPU work.
    node_id,
    -- Its name.
    name,
    -- How the chain continues: `thread` to the next on its thread; `launch`, `stream`,
    -- `stream_wait`, `return`, `fork` or `join`, as in `critical_path.hop`; `end`.
    leads_by,
    -- [ns] Start of its part on the chain.
    start_ns,
    -- [ns] End of that part.
    end_ns,
    -- [ns] Time of that part, without waits.
    work_ns
FROM (
    WITH
    hop AS MATERIALIZED (FROM critical_path.chain_hop(step, k)),

    passed AS (
        SELECT
            hop.*,
            coalesce(top_level_event.node_id, work.gpu_op_id) AS node_id,
            greatest(coalesce(top_level_event.start_ns, work.start_ns), from_ns) AS start_ns,
            least(coalesce(top_level_event.end_ns, work.end_ns), until_ns) AS end_ns
        FROM hop
        LEFT JOIN graph.top_level_event
            ON
                hop.thread_id = top_level_event.thread_id
                AND hop.from_ns < top_level_event.end_ns
                AND hop.until_ns > top_level_event.start_ns
        LEFT JOIN staging.gpu_op AS work ON hop.gpu_op_id = work.gpu_op_id
        WHERE top_level_event.node_id IS NOT NULL OR work.gpu_op_id IS NOT NULL
    ),

    waiting AS (
        SELECT
            rank,
            hop,
            passed.node_id,
            sum(
                least(call.end_ns, passed.end_ns)
                - greatest(wait_start_ns, passed.start_ns)
            ) AS waited_ns
        FROM passed
        INNER JOIN graph.host_call AS call
            ON
                passed.thread_id = call.thread_id
                AND passed.start_ns < call.end_ns
                AND passed.end_ns > wait_start_ns
        WHERE wait_start_ns < call.end_ns
        GROUP BY ALL
    ),

    located AS (
        SELECT
            passed.*,
            row_number() OVER chain AS position,
            CASE
                WHEN lead(hop) OVER chain = hop THEN 'thread'
                ELSE reason
            END AS leads_by,
            (passed.end_ns - passed.start_ns - coalesce(waited_ns, 0))::BIGINT AS work_ns
        FROM passed
        LEFT JOIN waiting USING (rank, hop, node_id)
        WINDOW chain AS (
            PARTITION BY rank ORDER BY hop DESC, passed.start_ns, passed.end_ns, node_id
        )
    )

    SELECT
        located.*,
        graph.node.name,
        (sum(work_ns) OVER (PARTITION BY rank))::BIGINT AS chain_ns
    FROM located
    INNER JOIN graph.node USING (node_id)
)
ORDER BY rank, position;
