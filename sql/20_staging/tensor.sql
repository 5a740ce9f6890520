-- Input and output tensors of ops, from the execution graph of the run.
-- One row per tensor argument or result of an op.
-- Key: op_id, direction, argument, ordinal.
CREATE TABLE staging.tensor (
    -- The op.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Which occurrence of the execution graph in the trace.
    occurrence,
    -- `in` or `out`.
    direction,
    -- Ordinal among the arguments or results, from 1.
    argument,
    -- Ordinal in a list of tensors, from 1.
    ordinal,
    -- The tensor's number in the execution graph.
    tensor,
    -- Its storage, shared by its views.
    storage,
    -- Elements.
    element_count,
    -- [B] Size of an element.
    element_bytes,
    -- Device, as PyTorch names it.
    device
) AS
WITH
side AS (
    SELECT op_id, run_id, trace_id, occurrence, 'in' AS direction, inputs AS items,
        input_types AS types
    FROM staging.op_et
    UNION ALL
    SELECT op_id, run_id, trace_id, occurrence, 'out', outputs, output_types
    FROM staging.op_et
),

argument AS (
    SELECT
        * EXCLUDE (items, types),
        unnest(items -> '$[*]') AS item,
        unnest(types ->> '$[*]') AS type,
        generate_subscripts(items -> '$[*]', 1) AS argument
    FROM side
),

listed AS (
    SELECT
        * EXCLUDE (item, type),
        CASE WHEN type LIKE 'Tensor(%' THEN [item] ELSE item -> '$[*]' END AS items
    FROM argument
    WHERE type LIKE 'Tensor(%' OR type LIKE 'GenericList[Tensor(%'
),

single AS (
    SELECT
        * EXCLUDE (items),
        unnest(items) AS item,
        generate_subscripts(items, 1) AS ordinal
    FROM listed
)

SELECT
    op_id,
    run_id,
    trace_id,
    occurrence,
    direction,
    argument,
    ordinal,
    try_cast(item ->> 0 AS BIGINT) AS tensor,
    try_cast(item ->> 1 AS BIGINT) AS storage,
    try_cast(item ->> 3 AS BIGINT) AS element_count,
    try_cast(item ->> 4 AS BIGINT) AS element_bytes,
    item ->> 5 AS device
FROM single
WHERE json_array_length(item) >= 6;
