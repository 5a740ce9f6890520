-- How long does each pipeline stage compute nothing in a step, waiting for the others? A step
-- lasts from the first computation on any stage to the last one. Stages are those of a table
-- of operations, otherwise ranks that send to each other on GPUs, of which kernels compute.
-- One row per rank and step of a pipeline.
-- Key: run_id, trace_id, rank, step.
CREATE VIEW question.pipeline_bubble (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The rank.
    rank,
    -- Pipeline stage; NULL unless a table of operations has it.
    stage,
    -- Number of the step.
    step,
    -- [ns] From the first start to the last end of computation, on all stages of the rank's
    -- pipeline that were recorded.
    span_ns,
    -- [ns] Part of that time in which it computes.
    compute_ns,
    -- [ns] The rest: its bubble.
    bubble_ns,
    -- [1] The bubble's share of the step.
    bubble_share,
    -- [ns] Part of the bubble before its first computation.
    before_ns,
    -- [ns] Between its computations.
    between_ns,
    -- [ns] After its last one.
    after_ns
) AS
WITH
computation AS (
    SELECT run_id, trace_id, rank, dp_rank, stage, step, start_ns, end_ns
    FROM staging.operation
    INNER JOIN staging.operation_type USING (type)
    WHERE
        kind = 'compute'
        AND run_id IN (
            SELECT run_id FROM staging.operation GROUP BY run_id HAVING count(DISTINCT stage) > 1
        )
    UNION ALL
    SELECT
        work.run_id,
        work.trace_id,
        rank,
        0,
        NULL,
        step,
        start_ns + coalesce(shift_ns, 0),
        end_ns + coalesce(shift_ns, 0)
    FROM staging.gpu_op AS work
    INNER JOIN staging.step_work USING (gpu_op_id)
    INNER JOIN staging.whole_step AS step USING (step_id)
    INNER JOIN staging.trace AS trace ON work.trace_id = trace.trace_id
    LEFT JOIN graph.clock AS clock ON work.trace_id = clock.trace_id
    WHERE
        kind = 'kernel'
        AND NOT is_collective
        AND work.trace_id IN (
            SELECT trace_id FROM staging.collective
            WHERE kind IN ('send', 'recv') AND NOT is_on_cpu
        )
),

-- Computations that overlap on a rank count once.
covered AS (
    SELECT
        *,
        greatest(end_ns - greatest(start_ns, coalesce(max(end_ns) OVER before, start_ns)), 0)
        AS own_ns
    FROM computation
    WINDOW before AS (
        PARTITION BY run_id, trace_id, rank, step ORDER BY start_ns, end_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),

part AS (
    SELECT
        run_id,
        trace_id,
        rank,
        stage,
        step,
        min(start_ns) AS first_ns,
        max(end_ns) AS last_ns,
        sum(own_ns)::BIGINT AS compute_ns,
        first_ns - min(first_ns) OVER pipeline AS before_ns,
        max(last_ns) OVER pipeline - last_ns AS after_ns,
        max(last_ns) OVER pipeline - min(first_ns) OVER pipeline AS span_ns
    FROM covered
    GROUP BY run_id, trace_id, rank, dp_rank, stage, step
    WINDOW pipeline AS (PARTITION BY run_id, dp_rank, step)
)

SELECT
    run_id,
    trace_id,
    rank,
    stage,
    step,
    span_ns,
    compute_ns,
    span_ns - compute_ns AS bubble_ns,
    bubble_ns / nullif(span_ns, 0),
    before_ns,
    span_ns - compute_ns - before_ns - after_ns,
    after_ns
FROM part
ORDER BY run_id, step, rank, trace_id;
