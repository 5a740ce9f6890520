-- When autograd runs: from the first to the last op of each backward pass, whatever else
-- runs meanwhile, such as the collectives of its hooks. A forward op on the main thread that
-- autograd records (it has a sequence number) ends a pass; without such numbers each
-- backward op is a range of its own. Python stacks show calls of the engine; `torch.compile`
-- names the regions of compiled autograd, `Torch-Compiled Region: !0/0`. Ranges that the
-- user or PyTorch calls `backward` may have more in them, so they count as named; so do those
-- of pipelines: `PP:0B3` is the backward pass of microbatch 3 on stage 0, `I` that of its
-- inputs alone, `W` that of its weights, `SEND_B` and `RECV_B` move gradients.
-- One row per uninterrupted time.
-- Key: trace_id, is_named, start_ns.
CREATE VIEW graph.backward_range (
    -- The trace.
    trace_id,
    -- Whether only the name of a user range says so.
    is_named,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
event AS (
    SELECT
        event.trace_id,
        node_id,
        event.start_ns,
        event.end_ns,
        role,
        op.name = 'aten::ones_like' AS is_seed,
        role = 'autograd'
        OR coalesce(op.forward_thread > 0, false)
        OR coalesce(staging.is_backward_op(op.name), false)
        OR coalesce(starts_with(op.name, 'torch.distributed.ddp.reducer::'), false)
        AS runs_backward
    FROM graph.top_level_event AS event
    INNER JOIN staging.thread USING (thread_id)
    LEFT JOIN staging.op AS op ON node_id = op_id
),

recorded AS (
    SELECT DISTINCT top_op_id
    FROM staging.op
    WHERE sequence_number >= 0 AND NOT is_annotation
),

numbered AS (
    SELECT DISTINCT trace_id FROM staging.op WHERE sequence_number >= 0 AND NOT is_annotation
),

-- The gradient of a loss is 1, which an op makes right before the first of a pass.
seeded AS (
    SELECT
        *,
        runs_backward
        OR coalesce(
            is_seed AND lead(runs_backward) OVER (PARTITION BY trace_id ORDER BY start_ns, node_id),
            false
        ) AS is_backward
    FROM event
),

-- The number of forward ops so far is that of the pass.
counted AS (
    SELECT
        seeded.*,
        count(*) FILTER (NOT is_backward AND role = 'main' AND recorded.top_op_id IS NOT NULL)
            OVER (
                PARTITION BY seeded.trace_id ORDER BY start_ns, node_id
                ROWS UNBOUNDED PRECEDING
            ) AS forward_count,
        numbered.trace_id IS NULL AS is_alone
    FROM seeded
    LEFT JOIN recorded ON node_id = recorded.top_op_id
    LEFT JOIN numbered ON seeded.trace_id = numbered.trace_id
),

found AS (
    SELECT trace_id, false AS is_named, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM counted
    WHERE is_backward
    GROUP BY trace_id, forward_count, CASE WHEN is_alone THEN node_id END
    UNION ALL
    SELECT trace_id, false, start_ns, end_ns
    FROM staging.slice
    WHERE
        cat = 'python_function'
        AND regexp_matches(
            name, 'torch/(autograd/(__init__|graph)|_tensor)\.py\(\d+\): (_engine_run_)?backward$'
        )
    UNION ALL
    SELECT trace_id, false, start_ns, end_ns
    FROM staging.annotation
    WHERE starts_with(name, 'Torch-Compiled Region: !')
    UNION ALL
    SELECT trace_id, true, start_ns, end_ns
    FROM staging.annotation
    WHERE
        regexp_matches(name, '(?i)(^|[^a-z])backward') AND NOT regexp_matches(name, '(?i)forward')
        OR regexp_matches(name, '^PP:\d+([BIW]|SEND_B|RECV_B|REDUCE_GRAD)\d*$')
),

-- A range that starts before all earlier ones have ended extends them.
united AS (
    SELECT *, count(*) FILTER (is_new) OVER in_order AS ordinal
    FROM (
        SELECT
            *,
            coalesce(
                start_ns > max(end_ns) OVER (
                    PARTITION BY trace_id, is_named ORDER BY start_ns, end_ns
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ),
                true
            ) AS is_new
        FROM found
    )
    WINDOW in_order AS (
        PARTITION BY trace_id, is_named ORDER BY start_ns, end_ns ROWS UNBOUNDED PRECEDING
    )
)

SELECT trace_id, is_named, min(start_ns), max(end_ns)
FROM united
GROUP BY trace_id, is_named, ordinal;
