-- What could be done about time on a critical path.
CREATE MACRO critical_path.lever(
    -- The kind of time, as in `critical_path.interval`.
    interval_kind
) AS (
    CASE
        WHEN interval_kind = 'kernel' THEN 'compute'
        WHEN interval_kind IN ('rank_wait', 'absent_rank_wait') THEN 'rank_wait'
        WHEN interval_kind IN ('memcpy', 'memset') THEN 'copy'
        WHEN interval_kind IN ('host_op', 'launch', 'launch_delay') THEN 'dispatch'
        WHEN interval_kind = 'host_gap' THEN 'python'
        WHEN interval_kind IN ('wait', 'return') THEN 'sync'
        WHEN interval_kind IN ('stream_gap', 'stream_wait', 'occupancy') THEN 'gpu_wait'
        WHEN interval_kind IN ('communication', 'data_loading') THEN interval_kind
        ELSE 'unexplained'
    END
);
