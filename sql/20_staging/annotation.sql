-- User ranges: ProfilerStep, DataLoader, Optimizer.step, record_function.
-- One row per range on a host thread.
-- Key: annotation_id.
CREATE TABLE staging.annotation (
    -- The range's event.
    annotation_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Name.
    name,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Identifier given by the profiler.
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
