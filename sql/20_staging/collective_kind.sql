-- The collective that a name stands for: `all_reduce`, `all_gather`, `reduce_scatter`,
-- `all_to_all`, `broadcast`, `reduce`, `gather`, `scatter`, `barrier`, `send`, `recv` or
-- `other`. Its words may be separated by underscores.
CREATE MACRO staging.collective_kind(
    -- The name of a kernel, a call or a range, in lower case.
    spoken
) AS (
    CASE
        WHEN regexp_matches(spoken, 'all_?reduce_barrier') THEN 'barrier'
        WHEN regexp_matches(spoken, 'all_?reduce|cross_device_reduce') THEN 'all_reduce'
        WHEN regexp_matches(spoken, 'all_?gather') THEN 'all_gather'
        WHEN regexp_matches(spoken, 'reduce_?scatter') THEN 'reduce_scatter'
        -- Kernels of experts on several ranks wait for all of them when they only meet.
        WHEN regexp_matches(spoken, '^(void )?sync_(all_)?on_stream|::device_sync') THEN 'barrier'
        WHEN
            regexp_matches(
                spoken,
                'all_?(to_?|2_?)all|send_?recv|deep_ep|\buccl::|a2a_?(dispatch|combine)'
                '|moecomm|\bep(dispatch|combine)(intra|inter)|_ep(::|_).*(dispatch|combine)'
            )
            THEN 'all_to_all'
        WHEN regexp_matches(spoken, 'broadcast|bcast') THEN 'broadcast'
        WHEN contains(spoken, 'reduce') THEN 'reduce'
        WHEN contains(spoken, 'gather') THEN 'gather'
        WHEN contains(spoken, 'scatter') THEN 'scatter'
        WHEN contains(spoken, 'barrier') THEN 'barrier'
        WHEN contains(spoken, 'send') THEN 'send'
        WHEN regexp_matches(spoken, 'recv|receive') THEN 'recv'
        ELSE 'other'
    END
);
