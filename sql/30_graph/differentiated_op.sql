-- The top-level ops whose gradients are computed: of those to which autograd gave the number
-- of a backward op, the last.
-- One row per op.
-- Key: op_id.
CREATE VIEW graph.differentiated_op (
    -- The op.
    op_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Its name.
    name,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
SELECT op_id, trace_id, thread_id, name, start_ns, end_ns
FROM staging.op
SEMI JOIN (
    SELECT arg_max(top_op_id, (start_ns, op_id)) AS op_id
    FROM staging.op
    SEMI JOIN (FROM staging.op WHERE staging.is_backward_op(name)) AS backward
        USING (trace_id, sequence_number)
    WHERE sequence_number >= 0 AND NOT staging.is_backward_op(name)
    GROUP BY trace_id, sequence_number
) AS last USING (op_id);
