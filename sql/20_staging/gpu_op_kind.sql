-- The kind of GPU op for an event category, for any vendor's profiler; NULL if it is not
-- GPU work.
CREATE MACRO staging.gpu_op_kind(
    -- The event's category, such as `kernel`, `gpu_memcpy` or `mlu_memset`.
    cat,
    -- Its arguments. Profilers of devices that PyTorch does not know have only one category
    -- beside that of calls, and some (Trainium) have the device's work in it.
    args
) AS (
    CASE
        WHEN cat IN ('kernel', 'Kernel') THEN 'kernel'
        WHEN cat = 'Memcpy' OR suffix(cat, '_memcpy') THEN 'memcpy'
        WHEN cat = 'Memset' OR suffix(cat, '_memset') THEN 'memset'
        WHEN cat = 'mtia_ccp_events' THEN 'other'
        WHEN cat = 'privateuse1_driver' AND args ->> '$.device' IS NOT NULL
            -- Spyre's has memory that is freed.
            THEN CASE WHEN args ->> '$.call' = 'Release' THEN 'other' ELSE 'kernel' END
    END
);
