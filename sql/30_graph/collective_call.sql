-- The op that called each collective on the CPU: the last earlier one (`c10d::...`) of its
-- kind with a tensor of its size, if no other collective has started since; Gloo executes a
-- reduce_scatter as all_reduce. Its thread continues at once; the collective starts on a
-- thread of the process group.
-- One row per op of a process group with a recorded call.
-- Key: op_id.
CREATE VIEW graph.collective_call (
    -- The op of the process group.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Thread that executes it.
    thread_id,
    -- [ns] Its start.
    start_ns,
    -- The op that called it.
    calling_op_id,
    -- Thread of that op.
    calling_thread_id,
    -- [ns] Time of the call: the end of that op, or its start if it ended later.
    called_ns
) AS
WITH
call AS (
    SELECT
        op_id,
        trace_id,
        thread_id,
        start_ns,
        end_ns,
        staging.collective_kind(replace(name, 'c10d::', '')) AS called_kind,
        regexp_extract_all(input_dims::VARCHAR, '\[[0-9, ]+\]') AS sizes
    FROM staging.op
    WHERE name LIKE 'c10d::%'
),

-- Of each call, every size that its collective may have; -1 if none is recorded.
sized_call AS (
    SELECT
        call.* EXCLUDE (sizes),
        unnest(
            CASE WHEN called_kind = 'reduce_scatter' THEN ['reduce_scatter', 'all_reduce']
                ELSE [called_kind]
            END
        ) AS kind,
        element_count
    FROM call
    CROSS JOIN LATERAL (
        SELECT DISTINCT unnest(
            CASE WHEN called_kind = 'barrier' OR coalesce(len(sizes), 0) = 0 THEN [-1]
                ELSE list_transform(
                    sizes,
                    lambda size: try_cast(list_product(try_cast(size AS BIGINT [])) AS BIGINT)
                )
            END
        ) AS element_count
    )
)

SELECT
    op.op_id,
    op.run_id,
    op.trace_id,
    op.thread_id,
    op.start_ns,
    call.op_id,
    call.thread_id,
    CASE WHEN call.end_ns <= op.start_ns THEN call.end_ns ELSE call.start_ns END
FROM staging.op AS op
INNER JOIN staging.collective AS collective ON op.op_id = collective.node_id
ASOF INNER JOIN sized_call AS call
    ON
        op.trace_id = call.trace_id
        AND collective.kind = call.kind
        AND coalesce(collective.element_count, -1) = call.element_count
        AND op.start_ns >= call.start_ns
WHERE call.thread_id <> op.thread_id
QUALIFY row_number() OVER (PARTITION BY call.op_id ORDER BY op.start_ns, op.op_id) = 1;
