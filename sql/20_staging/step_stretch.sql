-- The stretches between the starts and ends of steps in a trace, and the steps that contain
-- each: whatever starts in a stretch is in these steps. Without this relation, everything
-- in steps would have to be compared with each of them.
-- One row per stretch, from one boundary of a step to the next.
-- Key: trace_id, start_ns.
CREATE VIEW staging.step_stretch (
    -- The trace.
    trace_id,
    -- [ns] Start; it lasts until the next one starts.
    start_ns,
    -- The enclosing steps; NULL between steps.
    step_ids
) AS
WITH
bound AS (
    SELECT *, row_number() OVER (PARTITION BY trace_id ORDER BY start_ns) AS position
    FROM (
        SELECT trace_id, start_ns FROM staging.step_range
        UNION
        SELECT trace_id, end_ns FROM staging.step_range
    )
),

around AS (
    SELECT
        step_id, step.trace_id, unnest(range(first.position, last.position)) AS position
    FROM staging.step_range AS step
    INNER JOIN bound AS first
        ON step.trace_id = first.trace_id AND step.start_ns = first.start_ns
    INNER JOIN bound AS last
        ON step.trace_id = last.trace_id AND step.end_ns = last.start_ns
)

SELECT bound.trace_id, bound.start_ns, list(step_id) FILTER (step_id IS NOT NULL)
FROM bound
LEFT JOIN around USING (trace_id, position)
GROUP BY bound.trace_id, bound.start_ns;
