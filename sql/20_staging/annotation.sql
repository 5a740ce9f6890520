-- User ranges: ProfilerStep, DataLoader, Optimizer.step, record_function.
-- One row per range on a host thread.
-- Key: annotation_id.
CREATE TABLE staging.annotation (
    -- The range's event.
    annotation_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Name.
    name,
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Identifier that the profiler gave it.
    external_id
) AS
SELECT
    event_id,
    staging.thread.run_id,
    trace_id,
    thread_id,
    event.name,
    start_ns,
    end_ns,
    external_id
FROM staging.host_event AS event
INNER JOIN staging.thread USING (trace_id, pid, tid)
WHERE is_annotation;
