-- Which collectives of different ranks belong together, and which send and receive: those of
-- the same number in the order of their process group (`graph.collective_order`), shifted
-- against each other (`graph.collective_shift`). On the CPU, two of them that started in the
-- other order are exchanged.
-- One row per collective of a rank that is matched with the group's reference, or belongs
-- to it.
-- Key: node_id.
CREATE TABLE graph.collective_match (
    -- The kernel, the op of a process group on the CPU, or the range of a message there.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name of the process group, or what is known of it (`graph.unnamed_group`).
    process_group,
    -- Its ranks, as far as known.
    group_size,
    -- Number of the collective in its group, the same for all ranks.
    number,
    -- The matching node of the group's reference, its first trace.
    reference_node_id,
    -- Whether another shift fits as well: collectives, and the times between them, look
    -- alike.
    is_ambiguous
) AS
WITH
shifted AS (
    SELECT
        own.*,
        is_ambiguous AND own.trace_id <> own.reference_id AS is_ambiguous,
        own.number - shift + CASE
            WHEN own.signature = base.signature THEN 0
            WHEN
                own.signature = base.next_signature
                AND own.next_signature = base.signature
                THEN 1
            WHEN
                own.signature = base.previous_signature
                AND own.previous_signature = base.signature
                THEN -1
            ELSE 0
        END AS reference_number
    FROM graph.collective_order AS own
    INNER JOIN graph.collective_shift USING (trace_id, process_group)
    LEFT JOIN graph.collective_order AS base
        ON
            own.reference_id = base.trace_id
            AND own.process_group = base.process_group
            AND own.number - shift = base.number
)

SELECT
    own.node_id,
    own.run_id,
    own.trace_id,
    own.process_group,
    own.group_size,
    reference_number,
    base.node_id,
    is_ambiguous
FROM shifted AS own
LEFT JOIN graph.collective_order AS base
    ON
        own.reference_id = base.trace_id
        AND own.process_group = base.process_group
        AND reference_number = base.number
WHERE
    (own.run_id, own.process_group) IN (
        SELECT (run_id, process_group)
        FROM graph.collective_order
        GROUP BY run_id, process_group
        HAVING count(DISTINCT trace_id) > 1
    );
