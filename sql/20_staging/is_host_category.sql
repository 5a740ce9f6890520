-- Whether events of a category are ops, ranges or calls of a host thread, for any vendor's
-- profiler.
CREATE MACRO staging.is_host_category(
    -- The event's category, such as `cpu_op` or `xpu_runtime`.
    cat
) AS (
    cat IN ('cpu_op', 'Operator', 'user_annotation', 'Runtime')
    OR suffix(cat, '_runtime') OR suffix(cat, '_driver')
);
