-- The module call of each op: the innermost one that was open on the op's thread when it
-- started; for a backward op, that of its forward op, with which its top-level op shares
-- the sequence number.
-- One row per op that belongs to a module.
-- Key: op_id.
CREATE TABLE graph.op_module (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The module call it belongs to.
    module_call_id,
    -- Whether it is in the backward pass.
    is_backward
) AS
WITH
forward AS (
    SELECT op.*, module_call_id
    FROM staging.op AS op
    ASOF INNER JOIN graph.open_module AS open
        ON op.thread_id = open.thread_id AND op.start_ns >= open.at_ns
    WHERE module_call_id IS NOT NULL
),

-- The last op with a number is the one whose gradient is computed.
numbered AS (
    SELECT *
    FROM forward
    WHERE sequence_number >= 0
    QUALIFY
        row_number() OVER (
            PARTITION BY trace_id, sequence_number ORDER BY start_ns DESC, op_id DESC
        ) = 1
)

SELECT op_id, run_id, trace_id, module_call_id, false
FROM forward
UNION ALL
SELECT op.op_id, op.run_id, op.trace_id, numbered.module_call_id, true
FROM staging.op AS op
INNER JOIN staging.op AS top ON op.top_op_id = top.op_id
INNER JOIN numbered
    ON
        top.trace_id = numbered.trace_id
        AND top.sequence_number = numbered.sequence_number
        AND top.start_ns > numbered.start_ns
ANTI JOIN forward ON op.op_id = forward.op_id;
