-- Collectives of each trace in the order of their process group: by their recorded number,
-- or in the order in which they are executed or, on the CPU, called (`graph.collective_call`).
-- Two threads execute those on the CPU and may start two of them in the other order.
-- One row per collective, and send or receive whose other rank is known.
-- Key: node_id.
CREATE TABLE graph.collective_order (
    -- The kernel, the op of a process group on the CPU, or the range of a message there.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name of the process group, or what is known of it (`graph.unnamed_group`,
    -- `graph.thread_group`).
    process_group,
    -- Its ranks, as far as known.
    group_size,
    -- The group's reference: its first trace.
    reference_id,
    -- Kind of collective; NULL for a send or receive.
    kind,
    -- Input elements, if known.
    element_count,
    -- Whether it is a send or receive.
    is_message,
    -- Whether it runs on the CPU.
    is_on_cpu,
    -- Whether the numbers of all collectives of this group are recorded in the trace.
    is_numbered,
    -- Number in the group: as recorded, otherwise its place in the order, from 1.
    number,
    -- Collectives of the group in the trace.
    group_count,
    -- On the CPU, kind and size.
    signature,
    -- That of the collective before.
    previous_signature,
    -- That of the one after.
    next_signature,
    -- Step in which it starts.
    step,
    -- [ns] Start, since 1970 by the clock of the trace.
    start_ns,
    -- [ns] End, likewise; NULL on the CPU if it had not ended when the recording did.
    end_ns
) AS
WITH
grouped AS (
    SELECT
        collective.* EXCLUDE (process_group, group_size, ordinal, sender, receiver),
        coalesce(peer.sender, collective.sender) AS sender,
        coalesce(peer.receiver, collective.receiver) AS receiver,
        CASE
            WHEN peer.node_id IS NOT NULL
                THEN concat(
                    regexp_extract(collective.process_group, '^[a-z]+'), ' ', peer.sender, '>',
                    peer.receiver, CASE WHEN tag <> 0 THEN ' tag ' || tag END
                )
            ELSE
                coalesce(
                    executed.process_group, unnamed.process_group, collective.process_group
                )
        END AS process_group,
        CASE
            WHEN peer.node_id IS NOT NULL THEN 2
            ELSE coalesce(executed.group_size, unnamed.group_size, collective.group_size)
        END AS group_size,
        coalesce(unnamed.ordinal, collective.ordinal) AS given_ordinal,
        coalesce(called_ns, collective.start_ns) AS called_ns
    FROM staging.collective AS collective
    LEFT JOIN graph.unnamed_group AS unnamed USING (node_id)
    LEFT JOIN graph.thread_group AS executed USING (node_id)
    LEFT JOIN graph.message_peer AS peer USING (node_id)
    LEFT JOIN graph.collective_call AS call ON node_id = call.op_id
),

-- A send without a recorded receiver is not matched: its order in a group does not reveal
-- it.
member AS (
    SELECT
        collective.* EXCLUDE (start_ns, end_ns, kind),
        CASE WHEN sender IS NULL THEN kind END AS kind,
        sender IS NOT NULL AS is_message,
        collective.start_ns + base_ns AS start_ns,
        CASE WHEN has_ended THEN collective.end_ns + base_ns END AS end_ns,
        CASE WHEN collective.start_ns < step.end_ns THEN step END AS step,
        count(sequence) OVER in_trace = count(*) OVER in_trace
        AND count(DISTINCT sequence) OVER in_trace = count(*) OVER in_trace AS is_numbered,
        CASE
            WHEN is_numbered THEN sequence
            WHEN is_on_cpu
                THEN row_number() OVER (
                    PARTITION BY collective.trace_id, process_group, sender, receiver
                    ORDER BY called_ns, collective.start_ns, node_id
                )
            ELSE given_ordinal
        END AS number,
        count(*) OVER in_trace AS group_count,
        CASE WHEN is_on_cpu THEN concat(collective.kind, ' ', element_count) END AS signature,
        min(collective.trace_id) OVER in_group AS reference_id
    FROM grouped AS collective
    INNER JOIN staging.trace ON collective.trace_id = staging.trace.trace_id
    ASOF LEFT JOIN staging.step AS step
        ON collective.trace_id = step.trace_id AND collective.start_ns >= step.start_ns
    WHERE collective.kind NOT IN ('send', 'recv') OR sender IS NOT NULL
    WINDOW
        in_group AS (PARTITION BY collective.run_id, process_group),
        in_trace AS (PARTITION BY collective.trace_id, process_group)
)

SELECT
    node_id,
    run_id,
    trace_id,
    process_group,
    group_size,
    reference_id,
    kind,
    element_count,
    is_message,
    is_on_cpu,
    is_numbered,
    number,
    group_count,
    signature,
    lag(signature) OVER in_order,
    lead(signature) OVER in_order,
    step,
    start_ns,
    end_ns
FROM member
WINDOW in_order AS (PARTITION BY trace_id, process_group ORDER BY number);
