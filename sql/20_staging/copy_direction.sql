-- The direction of a copy, from its name: `p2p` (between GPUs), `h2d`, `d2h` or `d2d`.
CREATE MACRO staging.copy_direction(
    -- The name, as CUPTI or rocprof records it.
    copy_name
) AS (
    CASE
        WHEN regexp_matches(copy_name, '(?i)PtoP|PeerTo') THEN 'p2p'
        WHEN regexp_matches(copy_name, '(?i)HtoD|HostTo') THEN 'h2d'
        WHEN regexp_matches(copy_name, '(?i)DtoH|ToHost') THEN 'd2h'
        ELSE 'd2d'
    END
);
