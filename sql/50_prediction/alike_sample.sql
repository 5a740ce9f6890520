-- Pieces of host time to learn from, with digests of what they can be alike in. Across
-- runs only overheads are learnt: not data loading nor idle time, nor gaps of 200 us and
-- more, which are the program's (Lin et al. 2022 leave these out too).
-- One row per place to learn from that a rung needs, and piece.
-- Key: host_from, thread_id, position.
CREATE VIEW prediction.alike_sample (
    -- Where is learnt from, as in `prediction.rung`.
    host_from,
    -- Who learns together: a run, or a trace (of one's own, or the first with such a GPU).
    pool_id,
    -- The step, trace or run of the pool that a piece of it may not learn from.
    excluded_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The step.
    step_id,
    -- Host thread.
    thread_id,
    -- Place of the piece on its thread.
    position,
    -- Its type.
    type,
    -- Role of the host thread.
    role,
    -- [ns] Duration.
    sample_ns,
    -- Digest of the type.
    type_key,
    -- Digest of type and name.
    name_key,
    -- Digest of type, name, role and shapes.
    shapes_key,
    -- Digest of these and the place in the step.
    place_key
) AS
WITH
wanted AS (
    SELECT DISTINCT host_from
    FROM prediction.variant
    WHERE is_simulated AND host_from IS NOT NULL
),

trace AS (
    SELECT trace_id, min(trace_id) OVER (PARTITION BY gpu) AS first_trace_id
    FROM staging.trace
    LEFT JOIN staging.trace_gpu USING (trace_id)
)

SELECT
    host_from,
    CASE host_from
        WHEN 'other_steps' THEN sample.trace_id
        WHEN 'other_runs' THEN first_trace_id
        ELSE run_id
    END,
    CASE host_from
        WHEN 'other_steps' THEN step_id
        WHEN 'other_ranks' THEN sample.trace_id
        WHEN 'other_runs' THEN run_id
    END,
    run_id,
    sample.trace_id,
    step_id,
    thread_id,
    position,
    type,
    role,
    sample_ns,
    hash(type),
    hash(type, name),
    hash(type, name, role, shapes),
    hash(type, name, role, shapes, place, place_count)
FROM overhead.sample AS sample
INNER JOIN trace ON sample.trace_id = trace.trace_id
CROSS JOIN wanted
WHERE
    CASE host_from
        WHEN 'other_runs' THEN type LIKE 'T_' AND (type <> 'T1' OR sample_ns < 200_000)
        ELSE sample.trace_id IN (SELECT trace_id FROM staging.computing)
    END;
