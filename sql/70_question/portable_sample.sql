-- What can other databases learn from this one's overheads (`tracedb overheads learn`)?
-- Spans of T1 to T5, except gaps of 200 us and more between ops, which are the program's.
-- One row per span of host time in a step.
-- Key: trace_sha256, thread, position.
CREATE VIEW question.portable_sample (
    -- SHA-256 of the text of that trace.
    trace_sha256,
    -- The same for the first trace of its run.
    run_sha256,
    -- Name of the GPU; NULL if the trace does not name one.
    gpu,
    -- Number of the thread within its trace, from 1.
    thread,
    -- Position of the span on its thread.
    position,
    -- Number of the step within its trace, from 1.
    step,
    -- Overhead type, T1..T5.
    type,
    -- Further properties for finding similar spans, as in `overhead.sample`.
    name,
    -- Role of the host thread.
    role,
    -- The op that the span or the call belongs to.
    shapes,
    -- Number of earlier spans of its type and name in the step on its thread.
    ordinal,
    -- Number of spans of its type and name in the step on its thread.
    ordinal_count,
    -- [ns] Duration.
    sample_ns
) AS
WITH
trace AS (
    SELECT
        trace_id,
        sha256,
        first_value(sha256) OVER (PARTITION BY run_id ORDER BY sha256) AS run_sha256
    FROM staging.trace
    SEMI JOIN staging.step USING (trace_id)
)

SELECT
    trace.sha256,
    run_sha256,
    gpu,
    dense_rank() OVER (PARTITION BY sample.trace_id ORDER BY thread_id),
    position,
    dense_rank() OVER (PARTITION BY sample.trace_id ORDER BY step_id),
    type,
    name,
    role,
    shapes,
    ordinal,
    ordinal_count,
    sample_ns
FROM overhead.sample AS sample
INNER JOIN trace ON sample.trace_id = trace.trace_id
LEFT JOIN staging.trace_gpu AS gpu ON sample.trace_id = gpu.trace_id
WHERE overhead.is_portable(type, sample_ns);
