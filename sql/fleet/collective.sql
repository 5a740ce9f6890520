-- The collectives of a rank: what a lake keeps of them, for those of other ranks to be put
-- beside. Sends and receives are left out.
-- One row per kernel of a collective.
-- Key: gpu_op_id.
CREATE VIEW fleet.collective (
    -- The kernel, by a number of its own in the lake.
    gpu_op_id,
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
    gpu_op_id,
    collective.trace_id,
    coalesce(process_group, ''),
    collective.kind,
    coalesce(sequence, ordinal),
    end_ns - start_ns
FROM staging.collective AS collective
INNER JOIN staging.gpu_op USING (gpu_op_id)
WHERE collective.kind NOT IN ('send', 'recv');
