-- Overheads of other databases, with numbers for their runs and steps that no run or step
-- of this one has; a trace that is in this database, too, keeps the number of its run.
-- One row per span of host time.
-- Key: trace_sha256, thread, position.
CREATE VIEW staging.library_sample (
    -- SHA-256 of the text of the trace that it is from.
    trace_sha256,
    -- Number of the thread, among those of its trace.
    thread,
    -- Position of the span on its thread.
    position,
    -- Name of the GPU; NULL where the trace names none.
    gpu,
    -- Its run: below 0, or that of the same trace in this database.
    run_id,
    -- Its step: below 0.
    step_id,
    -- Overhead type.
    type,
    -- Name of the op or the call.
    name,
    -- Role of the host thread.
    role,
    -- What the op or the call is for.
    shapes,
    -- How many of its type and name were before it.
    ordinal,
    -- How many of its type and name there are.
    ordinal_count,
    -- [ns] Duration.
    sample_ns
) AS
SELECT
    trace_sha256,
    thread,
    position,
    gpu,
    coalesce(known.run_id, -dense_rank() OVER (ORDER BY run_sha256)),
    -dense_rank() OVER (ORDER BY trace_sha256, step),
    type,
    name,
    role,
    shapes,
    ordinal,
    ordinal_count,
    sample_ns
FROM raw.library_sample
LEFT JOIN raw.trace AS known ON trace_sha256 = known.sha256;
