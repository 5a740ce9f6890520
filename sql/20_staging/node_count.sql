-- Nodes that the ranks of a group are on, if ranks are numbered node by node and each node
-- has as many GPUs as the trace describes; NULL if it describes one, or the ranks are
-- unknown.
CREATE MACRO staging.node_count(
    -- The numbers of the ranks, or NULL.
    members,
    -- How many there are.
    group_size,
    -- Ranks of the job, or NULL.
    world_size,
    -- GPUs that the trace describes.
    described_count
) AS (
    CASE
        WHEN described_count < 2 THEN NULL
        WHEN len(members) = group_size
            THEN nullif(len(list_distinct([one // described_count for one in members])), 0)
        WHEN group_size = world_size THEN ceil(world_size / described_count)
    END::BIGINT
);
