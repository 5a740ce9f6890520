-- The collectives of a rank: what a lake keeps of them, for those of other ranks to be put
-- beside. Sends and receives are left out.
-- One row per collective of a rank.
-- Key: node_id.
CREATE VIEW fleet.collective (
    -- The kernel, or the op on the CPU, by a number of its own in the lake.
    node_id,
    -- The trace.
    trace_id,
    -- Its process group.
    process_group,
    -- `all_reduce`, `all_gather`, and so on.
    kind,
    -- Number in its group: as recorded, else its ordinal in the trace.
    number,
    -- [ns] How long it lasted, waiting for other ranks included.
    duration_ns
) AS
SELECT
    node_id,
    trace_id,
    coalesce(process_group, ''),
    kind,
    coalesce(sequence, ordinal),
    end_ns - start_ns
FROM staging.collective
WHERE kind NOT IN ('send', 'recv');
