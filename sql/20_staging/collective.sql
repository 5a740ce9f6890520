-- Communication between ranks: what each kernel of NCCL and similar libraries does, as the
-- profiler records it with the kernel, or from names and shapes; and what a process group
-- does on the CPU (Gloo, MPI, UCC), which is recorded as a range on its own thread; its sends
-- and receives on the thread that posts them. Logs of NCCL and of PyTorch's flight recorder
-- contain calls; those with a known end are included.
-- One row per kernel of communication, op of a process group on the CPU, message posted
-- there, or call in a log.
-- Key: node_id.
CREATE TABLE staging.collective (
    -- The kernel, the op, the range of the message, or the log's event.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `reduce`,
    -- `gather`, `scatter`, `barrier`, `send`, `recv` or `other`.
    kind,
    -- Name of the process group, and its ranks, as far as recorded; for a send or receive
    -- whose two ranks are known, also these (`1>2`).
    process_group,
    -- Ranks of the group; all ranks if not recorded. Two for such a send or receive.
    group_size,
    -- Input elements, if known.
    element_count,
    -- Their type, if the range that describes the call records it.
    element_type,
    -- Number of the collective in its group, the same on all ranks, if recorded.
    sequence,
    -- Ordinal among the collectives of its group in the trace, from 1.
    ordinal,
    -- Rank that sends the message of a send or receive, if known.
    sender,
    -- Rank that receives it.
    receiver,
    -- Whether it runs on the CPU.
    is_on_cpu,
    -- Whether it had ended when the recording did: on the CPU, one that had not has no
    -- duration.
    has_ended
) AS
WITH
member AS (
    SELECT *, false AS is_on_cpu
    FROM staging.collective_kernel
    UNION ALL
    -- Its group is not recorded, apart from the kind of its backend and its thread.
    SELECT
        op_id,
        op.trace_id,
        name,
        concat_ws(' ', regexp_extract(name, '^[a-z]+'), executing.process_group),
        group_size,
        list_product(try_cast(input_dims -> 0 AS BIGINT [])),
        input_types ->> 0,
        NULL,
        start_ns,
        start_ns,
        end_ns,
        true
    FROM staging.process_group_op
    INNER JOIN staging.op AS op USING (op_id)
    LEFT JOIN staging.process_group_thread AS executing USING (thread_id)
    UNION ALL
    SELECT
        annotation_id,
        trace_id,
        name,
        regexp_extract(name, '^[a-z]+'),
        2,
        list_product(try_cast(input_dims -> 0 AS BIGINT [])),
        input_types ->> 0,
        NULL,
        start_ns,
        start_ns,
        end_ns,
        true
    FROM staging.posted_message
    UNION ALL
    SELECT
        event_id,
        trace_id,
        lower(name),
        process_group || CASE WHEN source = 'nccl_inspector' THEN ' ' || name ELSE '' END,
        group_size,
        element_count,
        NULL,
        CASE WHEN NOT is_p2p THEN sequence END,
        start_ns,
        start_ns,
        end_ns,
        false
    FROM staging.logged_collective
    WHERE end_ns IS NOT NULL
)

SELECT
    node_id,
    run_id,
    trace_id,
    start_ns,
    end_ns,
    staging.collective_kind(spoken),
    CASE
        WHEN sender IS NULL THEN member.process_group
        ELSE concat_ws(' ', nullif(member.process_group, ''), sender || '>' || receiver)
    END AS process_group,
    CASE
        WHEN sender IS NOT NULL THEN 2
        ELSE coalesce(CASE WHEN given_size > 0 THEN given_size END, world_size)
    END::BIGINT,
    CASE WHEN given_count BETWEEN 0 AND 1_125_899_906_842_624 THEN given_count::BIGINT END,
    element_type,
    -- Both ranks of a message count their messages with all other ranks.
    CASE WHEN sender IS NULL THEN sequence END,
    row_number() OVER (
        PARTITION BY trace_id, member.process_group, sender, receiver
        ORDER BY called_ns, start_ns, node_id
    ),
    sender,
    receiver,
    is_on_cpu,
    NOT is_on_cpu OR end_ns > start_ns
FROM member
INNER JOIN staging.trace USING (trace_id)
LEFT JOIN staging.message USING (node_id);
