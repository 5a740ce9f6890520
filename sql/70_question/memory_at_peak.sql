-- What is allocated at the memory peak, and who allocated it? By the op around each
-- allocation that does more than allocate, its module and the open Python function. Equal
-- modules, such as the layers of a model, are together.
-- One row per device of a trace, origin, op, class of modules, pass and function.
-- Key: trace_id, device_type, device, origin, op, module, is_backward, frame.
CREATE VIEW question.memory_at_peak (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- `cpu`, `cuda`, `hip`, ..., as in `staging.memory_event`.
    device_type,
    -- Device; -1 for the CPU.
    device,
    -- `op`; `outside` of ops; `before` for what had been allocated before the recording
    -- started; `unknown` if blocks have no addresses, so that it is unknown which are
    -- freed.
    origin,
    -- Name of the op.
    op,
    -- [B] Allocated.
    live_bytes,
    -- [1] Their share of everything allocated at the peak.
    live_share,
    -- The module, or the class of several, as in `question.module_class`, if Python stacks
    -- were recorded.
    module,
    -- The Python function, with its file and line, as in `staging.python_frame`, if stacks
    -- were recorded.
    frame,
    -- Whether it is the backward pass; NULL without a module.
    is_backward,
    -- The modules.
    module_count,
    -- Blocks; NULL for those from before.
    block_count
) AS
WITH RECURSIVE
peak AS (
    SELECT
        trace_id,
        device_type,
        device,
        max(allocated_bytes) AS peak_bytes,
        arg_max(
            {at_ns: at_ns, id: memory_event_id},
            (allocated_bytes, -at_ns, -memory_event_id)
        ) AS place,
        bool_and(address IS NOT NULL) AS has_addresses
    FROM staging.memory_event
    GROUP BY trace_id, device_type, device
),

-- The next event at a block's address frees it.
block AS (
    SELECT
        *,
        lead({at_ns: at_ns, id: memory_event_id}) OVER (
            PARTITION BY trace_id, device_type, device, address
            ORDER BY at_ns, memory_event_id
        ) AS freed
    FROM staging.memory_event
),

live AS (
    SELECT block.*
    FROM block
    INNER JOIN peak USING (trace_id, device_type, device)
    WHERE
        has_addresses
        AND changed_bytes > 0
        AND {at_ns: at_ns, id: memory_event_id} <= place
        AND (freed IS NULL OR freed > place)
),

begun AS (
    SELECT thread_id, start_ns, arg_min(op_id, (end_ns, -op_id)) AS op_id
    FROM staging.op
    WHERE NOT is_annotation
    GROUP BY thread_id, start_ns
),

-- From the op that started last outwards, to one that is still open and does more.
walk AS (
    SELECT memory_event_id, at_ns, begun.op_id
    FROM live
    ASOF INNER JOIN begun
        ON live.thread_id = begun.thread_id AND live.at_ns >= begun.start_ns
    UNION ALL
    SELECT memory_event_id, at_ns, op.parent_op_id
    FROM walk
    INNER JOIN staging.op AS op ON walk.op_id = op.op_id
    INNER JOIN staging.op AS around ON op.parent_op_id = around.op_id
    WHERE
        NOT around.is_annotation
        AND (
            op.end_ns < at_ns OR regexp_matches(op.name, '^aten::(new_)?(empty|resize)')
        )
),

-- The outermost one reached.
allocating AS (
    SELECT memory_event_id, arg_min(op.op_id, (op.start_ns, -op.end_ns)) AS op_id
    FROM walk
    INNER JOIN staging.op AS op ON walk.op_id = op.op_id AND op.end_ns >= at_ns
    GROUP BY memory_event_id
),

placed AS (
    SELECT
        live.trace_id,
        device_type,
        device,
        CASE WHEN allocating.op_id IS NULL THEN 'outside' ELSE 'op' END AS origin,
        op.name AS op,
        path,
        staging.module_class(path) AS class,
        CASE WHEN path IS NOT NULL THEN coalesce(is_backward, false) END AS is_backward,
        frame.name AS frame,
        changed_bytes
    FROM live
    LEFT JOIN allocating USING (memory_event_id)
    LEFT JOIN staging.op AS op ON allocating.op_id = op.op_id
    LEFT JOIN graph.op_module AS op_module ON allocating.op_id = op_module.op_id
    ASOF LEFT JOIN graph.open_module AS open
        ON live.thread_id = open.thread_id AND live.at_ns >= open.at_ns
    LEFT JOIN staging.module_call AS module_call
        ON coalesce(op_module.module_call_id, open.module_call_id) = module_call.module_call_id
    ASOF LEFT JOIN graph.open_frame AS frame
        ON live.thread_id = frame.thread_id AND live.at_ns >= frame.at_ns
),

summed AS (
    SELECT
        * EXCLUDE (path, changed_bytes),
        any_value(path) AS path,
        count(DISTINCT path) AS module_count,
        sum(changed_bytes) AS live_bytes,
        count(*) AS block_count
    FROM placed
    GROUP BY ALL
    UNION ALL BY NAME
    SELECT
        peak.trace_id,
        peak.device_type,
        peak.device,
        CASE WHEN has_addresses THEN 'before' ELSE 'unknown' END AS origin,
        peak_bytes - coalesce(sum(changed_bytes), 0) AS live_bytes
    FROM peak
    LEFT JOIN live USING (trace_id, device_type, device)
    GROUP BY peak.trace_id, peak.device_type, peak.device, has_addresses, peak_bytes
    HAVING live_bytes <> 0
)

SELECT
    summed.trace_id,
    rank,
    summed.device_type,
    summed.device,
    origin,
    op,
    live_bytes::BIGINT AS live_bytes,
    live_bytes / nullif(peak_bytes, 0),
    CASE module_count WHEN 1 THEN summed.path ELSE class END AS module,
    frame,
    is_backward,
    coalesce(module_count, 0),
    block_count
FROM summed
INNER JOIN peak
    ON
        summed.trace_id = peak.trace_id
        AND summed.device_type = peak.device_type
        AND summed.device = peak.device
INNER JOIN staging.trace AS trace ON summed.trace_id = trace.trace_id
ORDER BY summed.trace_id, peak_bytes DESC, summed.device_type, summed.device,
    live_bytes DESC, origin, op, module, is_backward, frame;
