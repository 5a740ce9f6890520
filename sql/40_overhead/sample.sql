-- The spans of host time in steps from which overheads are learned (Lin et al. 2022,
-- section 3), with the properties that distinguish them. A span in several steps, as when
-- steps of threads overlap, counts in that of its own thread.
-- One row per span of host time in a step, except waits, and the time in which threads
-- other than the step's have not started or have finished.
-- Key: thread_id, position.
CREATE VIEW overhead.sample (
    -- Host thread.
    thread_id,
    -- Position of the span on its thread, as in `overhead.timeline`.
    position,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The step.
    step_id,
    -- T1..T5, idle or wait_data.
    type,
    -- Name of the op (T2, T3, T5, wait_data) or of the call (T4); for T1, the op or the
    -- call after it; otherwise empty.
    name,
    -- Role of the host thread.
    role,
    -- The arguments: dimensions of the op's arguments; for a call, the op's name and these.
    shapes,
    -- Number of earlier spans of its type and name in the step on its thread.
    ordinal,
    -- Number of spans of its type and name in the step on its thread.
    ordinal_count,
    -- [ns] Duration.
    sample_ns
) AS
WITH
span AS MATERIALIZED (
    SELECT
        interval.*,
        interval.thread_id = step.thread_id AS is_step_thread,
        step.start_ns AS step_start_ns,
        step.end_ns AS step_end_ns
    FROM overhead.interval
    INNER JOIN staging.step ON interval.step_id = step.step_id
),

overlapping_step AS (
    SELECT DISTINCT unnest(step_ids) AS step_id
    FROM staging.step_stretch
    WHERE len(step_ids) > 1
),

-- Each span once. Only those of steps that overlap others can occur twice.
single AS (
    FROM span
    ANTI JOIN overlapping_step USING (step_id)
    UNION ALL
    FROM span
    SEMI JOIN overlapping_step USING (step_id)
    QUALIFY row_number() OVER (
        PARTITION BY span.thread_id, position
        ORDER BY is_step_thread DESC, step_start_ns DESC, step_id
    ) = 1
),

named AS (
    SELECT
        span.thread_id,
        span.position,
        span.run_id,
        span.trace_id,
        step_id,
        span.type,
        CASE
            WHEN span.type IN ('T2', 'T3', 'T5') THEN op.name
            WHEN span.type = 'wait_data' THEN coalesce(op.name, '')
            WHEN span.type = 'T4' THEN call.name
            WHEN span.type = 'T1' THEN coalesce(op.name, call.name, '')
            ELSE ''
        END AS name,
        role,
        CASE span.type
            WHEN 'T1' THEN ''
            WHEN 'T4' THEN concat(op.name, ' ', op.input_dims::VARCHAR)
            ELSE coalesce(op.input_dims::VARCHAR, '')
        END AS shapes,
        span.end_ns - span.start_ns AS sample_ns
    FROM single AS span
    INNER JOIN staging.thread ON span.thread_id = thread.thread_id
    -- A gap belongs to what comes after it in the step.
    LEFT JOIN overhead.timeline AS next
        ON
            span.type = 'T1'
            AND span.thread_id = next.thread_id
            AND span.position + 1 = next.position
            AND next.start_ns < step_end_ns
    LEFT JOIN staging.op
        ON CASE span.type WHEN 'T1' THEN next.op_id ELSE span.op_id END = op.op_id
    LEFT JOIN staging.call AS call
        ON
            CASE span.type WHEN 'T1' THEN next.call_id WHEN 'T4' THEN span.call_id END
            = call.call_id
    WHERE
        span.type LIKE 'T_'
        OR span.type = 'wait_data'
        OR (span.type = 'idle' AND is_step_thread)
),

-- A digest sorts faster than names.
keyed AS (
    SELECT *, hash(step_id, thread_id, type, name) AS kind
    FROM named
)

SELECT
    thread_id,
    position,
    run_id,
    trace_id,
    step_id,
    type,
    name,
    role,
    shapes,
    row_number() OVER (PARTITION BY kind ORDER BY position) - 1,
    count(*) OVER (PARTITION BY kind),
    sample_ns
FROM keyed;
