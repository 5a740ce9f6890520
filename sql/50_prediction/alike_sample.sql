-- Spans of host time to learn from, with digests of the properties by which they can be
-- similar. Only overheads are learned across runs (`overhead.is_portable`): neither data
-- loading nor idle time.
-- One row per span and source that a method learns from; spans of a library have no trace
-- here, and negative step and thread numbers.
-- Key: host_from, pool_id, step_id, thread_id, position.
CREATE VIEW prediction.alike_sample (
    -- The source, as in `prediction.method`.
    host_from,
    -- The pool: a run, or a trace (its own, or the first with the same GPU).
    pool_id,
    -- The step, trace or run of the pool that a span of it may not learn from.
    excluded_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The step.
    step_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
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
    -- Digest of type, name, role and shapes; NULL if these do not count.
    shapes_key,
    -- Digest of these and the ordinal in the step; NULL likewise.
    ordinal_key
) AS
WITH
wanted AS (
    SELECT DISTINCT host_from
    FROM prediction.variant
    WHERE is_simulated AND host_from IS NOT NULL
),

trace AS (
    SELECT trace_id, run_id, sha256, gpu, min(trace_id) OVER (PARTITION BY gpu) AS first_trace_id
    FROM staging.trace
    LEFT JOIN staging.trace_gpu USING (trace_id)
),

-- Samples of a library, with numbers for their runs and steps that no run or step of this
-- database has; a trace that is also in this database keeps the number of its run.
library AS (
    SELECT
        sample.* EXCLUDE (run_sha256, step),
        coalesce(known.run_id, -dense_rank() OVER (ORDER BY run_sha256)) AS run_id,
        -dense_rank() OVER (ORDER BY trace_sha256, step) AS step_id
    FROM reference.library_sample AS sample
    LEFT JOIN trace AS known ON trace_sha256 = sha256
),

-- From a library, runs with the same GPU; all of them if there are none.
shared AS (
    SELECT target.run_id AS target_run_id, library.*
    FROM (
        SELECT
            run_id,
            any_value(gpu) AS own_gpu,
            EXISTS (
                SELECT 1
                FROM library
                WHERE library.gpu IS NOT DISTINCT FROM any_value(trace.gpu)
            ) AS has_gpu
        FROM trace
        SEMI JOIN staging.computing USING (trace_id)
        GROUP BY run_id
    ) AS target
    INNER JOIN library
        ON
            library.run_id <> target.run_id
            AND (NOT has_gpu OR gpu IS NOT DISTINCT FROM own_gpu)
)

SELECT
    host_from,
    CASE host_from
        WHEN 'other_steps' THEN sample.trace_id
        WHEN 'other_runs' THEN first_trace_id
        ELSE sample.run_id
    END,
    prediction.left_out_id(host_from, sample.run_id, sample.trace_id, step_id),
    sample.run_id,
    sample.trace_id,
    step_id,
    thread_id,
    position,
    type,
    role,
    sample_ns,
    hash(type),
    hash(type, name),
    CASE WHEN host_from <> 'run_by_name' THEN hash(type, name, role, shapes) END,
    CASE
        WHEN host_from <> 'run_by_name'
            THEN hash(type, name, role, shapes, ordinal, ordinal_count)
    END
FROM overhead.sample AS sample
INNER JOIN trace ON sample.trace_id = trace.trace_id
CROSS JOIN wanted
WHERE
    (
        host_from = 'other_runs'
        OR sample.trace_id IN (SELECT trace_id FROM staging.computing)
    )
    AND (
        host_from NOT IN ('other_runs', 'library')
        OR overhead.is_portable(type, sample_ns)
    )
UNION ALL
SELECT
    'library',
    target_run_id,
    run_id,
    run_id,
    NULL,
    step_id,
    -thread,
    position,
    type,
    role,
    sample_ns,
    hash(type),
    hash(type, name),
    hash(type, name, role, shapes),
    hash(type, name, role, shapes, ordinal, ordinal_count)
FROM shared
SEMI JOIN wanted ON host_from = 'library';
