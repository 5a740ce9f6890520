-- Whether each rank may give a collective of a kind another number of elements: its own
-- part of an all_to_all; nothing where a scatter only receives.
CREATE MACRO staging.has_size_per_rank(
    -- The kind, as in `staging.collective`.
    kind
) AS (
    kind IN ('all_to_all', 'gather', 'scatter')
);
