-- The collectives of a rank: the rows that a lake stores to compare them with those of
-- other ranks, with what the rank did in between. Sends and receives are excluded.
-- One row per collective of a rank.
-- Key: node_id.
CREATE VIEW fleet.collective (
    -- The kernel, or the op on the CPU, by its number in the lake.
    node_id,
    -- The trace.
    trace_id,
    -- Its process group.
    process_group,
    -- Ranks of the group, as far as recorded.
    group_size,
    -- `all_reduce`, `all_gather`, and so on.
    kind,
    -- Number in its group: as recorded, otherwise its ordinal in the trace.
    number,
    -- [ns] Start, since 1970 by the host's clock.
    start_ns,
    -- [ns] Its duration, including the wait for other ranks.
    duration_ns,
    -- [ns] When the rank was ready for it, likewise; before its start if it had to wait for
    -- the previous collective on its stream (`critical_path.collective_arrival`).
    ready_ns,
    -- The collective of the trace that this depended on; NULL if none.
    source_node_id,
    -- The previous one on its stream; NULL for the first, and on the CPU.
    previous_node_id
) AS
SELECT
    collective.node_id,
    collective.trace_id,
    coalesce(process_group, ''),
    group_size,
    collective.kind,
    coalesce(sequence, ordinal),
    base_ns + collective.start_ns,
    collective.end_ns - collective.start_ns,
    base_ns + coalesce(ready_ns, collective.start_ns),
    source_node_id,
    CASE
        WHEN work.gpu_op_id IS NOT NULL
            THEN lag(collective.node_id) OVER (
                PARTITION BY collective.trace_id, work.device, work.stream
                ORDER BY work.position, collective.node_id
            )
    END
FROM staging.collective AS collective
INNER JOIN staging.trace AS trace ON collective.trace_id = trace.trace_id
LEFT JOIN graph.stream_position AS work ON collective.node_id = work.gpu_op_id
LEFT JOIN critical_path.collective_arrival AS arrival ON collective.node_id = arrival.node_id
WHERE collective.kind NOT IN ('send', 'recv');
