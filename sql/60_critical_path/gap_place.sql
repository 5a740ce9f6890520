-- Where the host is in its gaps, to the nanosecond: the gaps between top-level ops (T1
-- spans), the time before and after the ops of a step on its thread, and the stretches of
-- measured paths that belong to no op or call, divided by the Python function, or without
-- functions the user range, and the module that are open in them.
-- One row per gap, function and module.
-- Key: thread_id, start_ns, end_ns, frame, module.
CREATE VIEW critical_path.gap_place (
    -- Host thread.
    thread_id,
    -- [ns] Start of the gap, by the clock of its trace.
    start_ns,
    -- [ns] Its end.
    end_ns,
    -- The function or range, as in `graph.open_place`; NULL if none is open.
    frame,
    -- The module, with its enclosing modules; NULL likewise.
    module,
    -- [ns] The part of the gap that is spent there.
    time_ns
) AS
WITH
gap AS (
    SELECT thread_id, start_ns, end_ns
    FROM overhead.counted_span
    WHERE type = 'T1'
    UNION
    SELECT thread_id, start_ns, end_ns FROM overhead.step_idle
    UNION
    SELECT
        thread_id,
        critical_path.own_ns(start_ns, scope, shift_ns),
        critical_path.own_ns(end_ns, scope, shift_ns)
    FROM critical_path.measured_interval AS interval
    LEFT JOIN graph.clock USING (trace_id)
    WHERE node_id IS NULL AND thread_id IS NOT NULL
),

place AS MATERIALIZED (FROM graph.open_place),

-- A gap of a thread without places has the one position 0, where no place is.
positioned AS (
    SELECT
        gap.*,
        unnest(
            range(coalesce(first.position, 0), coalesce(last.position, 0) + 1)
        ) AS position
    FROM gap
    ASOF LEFT JOIN place AS first
        ON gap.thread_id = first.thread_id AND gap.start_ns >= first.at_ns
    ASOF LEFT JOIN place AS last
        ON gap.thread_id = last.thread_id AND gap.end_ns > last.at_ns
)

SELECT
    gap.thread_id,
    gap.start_ns,
    gap.end_ns,
    frame,
    module_call.path AS module,
    sum(
        least(gap.end_ns, coalesce(until_ns, gap.end_ns))
        - greatest(gap.start_ns, coalesce(at_ns, gap.start_ns))
    )::BIGINT
FROM positioned AS gap
LEFT JOIN place
    ON gap.thread_id = place.thread_id AND gap.position = place.position
LEFT JOIN staging.module_call AS module_call USING (module_call_id)
GROUP BY gap.thread_id, gap.start_ns, gap.end_ns, frame, module;
