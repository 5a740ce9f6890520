-- Whether a relation reads slices of a category, or the profiler has what they say in
-- other events as well.
CREATE MACRO staging.is_read_category(
    -- The event's category; NULL or empty if it has none.
    cat
) AS (
    coalesce(
        staging.is_host_category(cat)
        OR staging.gpu_op_kind(cat, NULL) IS NOT NULL
        OR regexp_full_match(
            cat,
            'Trace|python_function|overhead|cpu_instant_event|external_correlation'
            '|\w+_(user_annotation|sync|event|insight|counters|scope_profiler|profiler_range)'
            '|operation|flight_recorder|nccl_inspector|critical_path|predicted_\w+'
        ),
        false
    )
);
