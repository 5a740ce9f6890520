-- The ranges in which a thread fetches a batch (`staging.data_loading`), each until all that
-- had started by then are over: of nested ranges, the outer one continues after an inner one.
-- One row per range.
-- Key: annotation_id.
CREATE VIEW staging.loading_range (
    -- The range's event.
    annotation_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- [ns] Start.
    start_ns,
    -- [ns] The latest end so far on the thread.
    end_ns
) AS
SELECT
    annotation_id,
    trace_id,
    thread_id,
    start_ns,
    max(end_ns) OVER (
        PARTITION BY thread_id ORDER BY start_ns, end_ns DESC, annotation_id
        ROWS UNBOUNDED PRECEDING
    )
FROM staging.data_loading;
