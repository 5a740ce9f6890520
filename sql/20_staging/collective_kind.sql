-- The collective that a name stands for: `all_reduce`, `all_gather`, `reduce_scatter`,
-- `all_to_all`, `broadcast`, `reduce`, `send`, `recv` or `other`. Its words may be
-- separated by underscores.
CREATE MACRO staging.collective_kind(
    -- The name of a kernel, a call or a range, in lower case.
    spoken
) AS (
    CASE
        WHEN regexp_matches(spoken, 'all_?reduce|cross_device_reduce') THEN 'all_reduce'
        WHEN regexp_matches(spoken, 'all_?gather') THEN 'all_gather'
        WHEN regexp_matches(spoken, 'reduce_?scatter') THEN 'reduce_scatter'
        WHEN regexp_matches(spoken, 'all_?to_?all|send_?recv|deep_ep') THEN 'all_to_all'
        WHEN contains(spoken, 'broadcast') THEN 'broadcast'
        WHEN contains(spoken, 'reduce') THEN 'reduce'
        WHEN contains(spoken, 'send') THEN 'send'
        WHEN contains(spoken, 'recv') THEN 'recv'
        ELSE 'other'
    END
);
