-- How long things take in a trace, as histograms that add up: the histograms of several
-- traces together are the sums, and all percentiles follow. The width of a bucket is 1/128
-- of the power of two below it; durations below 256 ns have a bucket each. So the mean that
-- represents a bucket has an error below 0.8 %, however many are added; no duration is ever
-- rounded to zero.
-- One row per trace, subject, name, hundred of steps, and bucket.
-- Key: trace_id, subject, name, first_step, bucket_ns.
CREATE VIEW fleet.sketch (
    -- The trace.
    trace_id,
    -- `kernel` (copies, too), `family` (GPU work of ops that kernel models know, by family),
    -- `op`, `overhead` (T1 to T5, in steps), `collective` (by kind), `step` (`period` and
    -- `host`), or `operation` (of logs, by type).
    subject,
    -- Its name.
    name,
    -- The first of the hundred steps that contain its step, by number; NULL outside of
    -- steps.
    first_step,
    -- [ns] Start of the bucket.
    bucket_ns,
    -- Number of durations in it.
    occurrences,
    -- [ns] Their sum.
    total_ns
) AS
WITH
work AS (
    SELECT trace_id, name, op_id, gpu_op_id AS node_id, end_ns - start_ns AS duration_ns
    FROM staging.gpu_op
),

node AS (
    SELECT 'kernel' AS subject, trace_id, name, node_id, duration_ns
    FROM work
    UNION ALL
    SELECT 'family', work.trace_id, family, node_id, duration_ns
    FROM work
    INNER JOIN staging.op AS op ON work.op_id = op.op_id
    INNER JOIN prediction.op_kind AS kind
        ON work.trace_id = kind.trace_id AND op.name = kind.name
    UNION ALL
    SELECT 'op', trace_id, name, op_id, end_ns - start_ns
    FROM staging.op
    UNION ALL
    SELECT 'collective', trace_id, kind, node_id, end_ns - start_ns
    FROM staging.collective
),

timed AS (
    SELECT subject, node.trace_id, node.name, step, duration_ns
    FROM node
    LEFT JOIN graph.node_step AS own USING (node_id)
    LEFT JOIN staging.step AS step ON own.step_id = step.step_id
    UNION ALL
    SELECT 'overhead', sample.trace_id, type, step, sample_ns
    FROM overhead.sample AS sample
    INNER JOIN staging.step AS step ON sample.step_id = step.step_id
    WHERE type LIKE 'T_'
    UNION ALL
    SELECT 'step', trace_id, unnest(['period', 'host']), step, unnest([period_ns, host_ns])
    FROM (
        SELECT
            step.trace_id,
            step.step,
            period.end_ns - period.start_ns AS period_ns,
            step.end_ns - step.start_ns AS host_ns
        FROM staging.step AS step
        SEMI JOIN staging.whole_step USING (step_id)
        INNER JOIN critical_path.step_period AS period USING (step_id)
        WHERE variant_id = 0
    )
    UNION ALL
    SELECT 'operation', trace_id, type, step, round(duration_ns)::BIGINT
    FROM staging.operation
),

-- Everything after the first eight binary digits of a duration is dropped.
placed AS (
    SELECT
        subject,
        trace_id,
        name,
        step - step % 100 AS first_step,
        greatest(length(bin(duration_ns)) - 8, 0) AS digits,
        (duration_ns >> digits) << digits AS bucket_ns,
        duration_ns
    FROM timed
)

SELECT
    trace_id,
    subject,
    name,
    first_step,
    bucket_ns,
    count(*),
    sum(duration_ns)::BIGINT
FROM placed
GROUP BY trace_id, subject, name, first_step, bucket_ns;
