-- Gaps between the work of a device, each within a window: a step or a trace.
-- One row per variant (0 is measured), window, device, and work before which it idles.
-- Key: variant_id, scope, window_id, device, from_ns.
CREATE VIEW critical_path.idle_gap (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- `step` (its mark) or `trace`, as in `critical_path.idle_window`.
    scope,
    -- The step; the trace.
    window_id,
    -- The trace.
    trace_id,
    -- Step; NULL of a trace.
    step_id,
    -- Number of the GPU.
    device,
    -- The next GPU work; NULL if there is none.
    gpu_op_id,
    -- What that started after, as in `graph.gpu_cause`, or `end`.
    cause,
    -- [ns] From the start of its launch until that is submitted.
    submit_ns,
    -- The host thread whose activity explains the time after the last work.
    end_thread_id,
    -- [ns] Start, from the start of the trace (`simulation.origin`).
    from_ns,
    -- [ns] End, likewise.
    until_ns,
    -- [ns] End of what has a cause.
    explained_ns
) AS
WITH
-- All work of a device, and a final row at the end of all windows.
work AS (
    SELECT
        variant_id, trace_id, device, gpu_op_id, start_ns, end_ns, cause, submit_ns,
        unexplained_ns
    FROM critical_path.gpu_outcome
    UNION ALL
    SELECT variant_id, trace_id, device, NULL, max(end_ns), max(end_ns), 'end', 0, 0
    FROM critical_path.idle_window
    INNER JOIN staging.device USING (trace_id)
    WHERE gpu_op_count > 0
    GROUP BY ALL
),

preceded AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY variant_id, trace_id, device
            ORDER BY start_ns, end_ns, gpu_op_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS idle_from_ns
    FROM work
),

-- Joined by the places of the windows that it may meet: joined by times alone, each gap would
-- meet all windows.
met AS (
    SELECT
        work.*,
        unnest(range(coalesce(before.place, 0) + 1, last.place + 1)) AS place
    FROM (
        FROM preceded
        INNER JOIN (SELECT DISTINCT variant_id, trace_id, scope FROM critical_path.idle_window)
            USING (variant_id, trace_id)
        WHERE coalesce(start_ns > idle_from_ns, true)
    ) AS work
    ASOF INNER JOIN critical_path.idle_window AS last
        ON
            work.variant_id = last.variant_id
            AND work.trace_id = last.trace_id
            AND work.scope = last.scope
            AND work.start_ns > last.start_ns
    ASOF LEFT JOIN critical_path.idle_window AS before
        ON
            work.variant_id = before.variant_id
            AND work.trace_id = before.trace_id
            AND work.scope = before.scope
            AND work.idle_from_ns >= before.latest_end_ns
)

SELECT
    variant_id,
    scope,
    window_id,
    trace_id,
    step_id,
    device,
    gpu_op_id,
    cause,
    submit_ns,
    thread_id AS end_thread_id,
    greatest(coalesce(idle_from_ns, span.start_ns), span.start_ns) AS from_ns,
    least(met.start_ns, span.end_ns) AS until_ns,
    greatest(least(met.start_ns - unexplained_ns, until_ns), from_ns) AS explained_ns
FROM met
INNER JOIN critical_path.idle_window AS span USING (variant_id, trace_id, scope, place)
WHERE until_ns > from_ns;
