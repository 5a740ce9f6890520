-- The kind of GPU op for an event category, for any vendor's profiler; NULL if it is not
-- GPU work.
CREATE MACRO staging.gpu_op_kind(
    -- The event's category, such as `kernel`, `gpu_memcpy` or `mlu_memset`.
    cat
) AS (
    CASE
        WHEN cat IN ('kernel', 'Kernel') THEN 'kernel'
        WHEN cat = 'Memcpy' OR suffix(cat, '_memcpy') THEN 'memcpy'
        WHEN cat = 'Memset' OR suffix(cat, '_memset') THEN 'memset'
        WHEN cat = 'mtia_ccp_events' THEN 'other'
    END
);
