-- The times in which idle time of devices is computed: the mark of each step and, as
-- measured, each trace as a whole, from its first event, or with steps from the start of
-- the first, to the end of the last period, or of the last event.
-- One row per variant (0 is measured) and step or trace.
-- Key: variant_id, scope, window_id.
CREATE VIEW critical_path.idle_window (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- `step` (its mark) or `trace`.
    scope,
    -- The step; the trace.
    window_id,
    -- The trace.
    trace_id,
    -- Step; NULL of a trace.
    step_id,
    -- The host thread whose activity explains the time after the last work of a device.
    thread_id,
    -- [ns] Start, from the start of the trace (`simulation.origin`).
    start_ns,
    -- [ns] End, likewise.
    end_ns,
    -- Ordinal among those of the variant, trace and scope, by start, from 1.
    place,
    -- [ns] The latest end up to it, in that order.
    latest_end_ns
) AS
WITH
step_extent AS (
    SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM critical_path.step_period
    WHERE variant_id = 0
    GROUP BY trace_id
),

recorded AS (
    SELECT
        trace_id,
        min(path.start_ns) - any_value(origin_ns) AS start_ns,
        max(path.end_ns) - any_value(origin_ns) AS end_ns
    FROM critical_path.measured_path AS path
    INNER JOIN simulation.origin USING (trace_id)
    WHERE scope = 'trace'
    GROUP BY trace_id
),

main AS (
    SELECT trace_id, min(thread_id) AS thread_id
    FROM staging.thread
    WHERE role = 'main'
    GROUP BY trace_id
),

idle_window AS (
    SELECT
        variant_id, 'step' AS scope, step_id AS window_id, outcome.trace_id, step_id,
        step.thread_id, outcome.start_ns, outcome.end_ns
    FROM critical_path.step_outcome AS outcome
    INNER JOIN staging.step AS step USING (step_id)
    UNION ALL
    SELECT
        0, 'trace', trace_id, trace_id, NULL, thread_id,
        coalesce(step_extent.start_ns, recorded.start_ns),
        coalesce(step_extent.end_ns, recorded.end_ns)
    FROM recorded
    LEFT JOIN step_extent USING (trace_id)
    LEFT JOIN main USING (trace_id)
)

SELECT
    *,
    row_number() OVER in_order,
    max(end_ns) OVER in_order
FROM idle_window
WINDOW in_order AS (
    PARTITION BY variant_id, trace_id, scope ORDER BY start_ns, end_ns, window_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
);
