-- The direction of a copy, from its name: `p2p` (between GPUs), `h2d`, `d2h` or `d2d`.
-- Intel's profiler calls memory that is not a device's `M`.
CREATE MACRO staging.copy_direction(
    -- The name, as the vendor's profiler records it.
    copy_name
) AS (
    CASE
        WHEN regexp_matches(copy_name, '(?i)PtoP|PeerTo') THEN 'p2p'
        WHEN regexp_matches(copy_name, '(?i)HtoD|HostTo|[HM]2D|(Host|Pinned|Pageable) *->')
            THEN 'h2d'
        WHEN regexp_matches(copy_name, '(?i)DtoH|ToHost|D2[HM]|-> *(Host|Pinned|Pageable)')
            THEN 'd2h'
        ELSE 'd2d'
    END
);
