-- The op that called each collective on the CPU (`c10d::...`), one of its kind with a tensor
-- of its size. Collectives start in the order of their calls. Those that were called before
-- the recording have no call, and calls whose collectives are not recorded have none: as few
-- as possible. Gloo executes a reduce_scatter as all_reduce. The calling thread continues at
-- once; the collective starts on a thread of the process group.
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

-- Of each call, every size that its collective may have; -1 if none is recorded (PyTorch
-- before 2.2 records none in lists of tensors).
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
),

collective AS (
    SELECT op.op_id, op.run_id, op.trace_id, op.thread_id, op.start_ns, kind, element_count
    FROM staging.op AS op
    INNER JOIN staging.collective AS collective ON op.op_id = collective.node_id
),

-- Kinds of which both calls and collectives have sizes. Where a scatter receives, it has none.
sized AS (
    SELECT trace_id, kind
    FROM collective
    SEMI JOIN (FROM sized_call WHERE element_count >= 0) AS sized_call USING (trace_id, kind)
    GROUP BY trace_id, kind
    HAVING 2 * count(element_count) > count(*)
),

numbered_call AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id, kind, known_count ORDER BY start_ns, op_id
        ) AS call_number
    FROM (
        SELECT DISTINCT
            call.* EXCLUDE (element_count),
            CASE WHEN sized.kind IS NULL THEN -1 ELSE element_count END AS known_count
        FROM sized_call AS call
        LEFT JOIN sized USING (trace_id, kind)
    )
),

executed AS (
    SELECT
        collective.* EXCLUDE (element_count),
        CASE WHEN sized.kind IS NULL THEN -1 ELSE coalesce(element_count, -1) END
        AS known_count,
        row_number() OVER (
            PARTITION BY trace_id, kind, known_count ORDER BY start_ns, op_id
        ) AS number
    FROM collective
    LEFT JOIN sized USING (trace_id, kind)
),

-- How many of its kind and size were called by then, and how many, up to it, were called
-- before the recording.
queued AS (
    SELECT
        executed.*,
        coalesce(call_number, 0) AS called_count,
        greatest(
            max(executed.number - coalesce(call_number, 0)) OVER (
                PARTITION BY executed.trace_id, executed.kind, executed.known_count
                ORDER BY executed.number
            ),
            0
        ) AS earlier_count
    FROM executed
    ASOF LEFT JOIN numbered_call AS call
        ON
            executed.trace_id = call.trace_id
            AND executed.kind = call.kind
            AND executed.known_count = call.known_count
            AND executed.start_ns >= call.start_ns
),

-- The queue is empty at times: calls that always seem to wait are not executed.
ordered AS (
    SELECT
        *,
        earlier_count > coalesce(lag(earlier_count) OVER in_order, 0) AS is_earlier,
        number - earlier_count + min(called_count - number + earlier_count) OVER (
            PARTITION BY trace_id, kind, known_count
            ORDER BY number
            ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
        ) AS call_number
    FROM queued
    WINDOW in_order AS (PARTITION BY trace_id, kind, known_count ORDER BY number)
)

SELECT
    op.op_id,
    run_id,
    trace_id,
    op.thread_id,
    op.start_ns,
    call.op_id,
    call.thread_id,
    CASE WHEN call.end_ns <= op.start_ns THEN call.end_ns ELSE call.start_ns END
FROM ordered AS op
INNER JOIN numbered_call AS call USING (trace_id, kind, known_count, call_number)
WHERE NOT is_earlier AND call.thread_id <> op.thread_id
QUALIFY row_number() OVER (PARTITION BY call.op_id ORDER BY op.start_ns, op.op_id) = 1;
