-- Whether a collective of a kind ends on no rank before all ranks have started it. Those
-- with a root, such as a broadcast, may end earlier there or elsewhere.
CREATE MACRO staging.meets_all_ranks(
    -- The kind, as in `staging.collective`.
    kind
) AS (
    kind IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
);
