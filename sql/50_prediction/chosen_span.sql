-- Which spans of host time edits select, and how much of each: selecting a nested op, a
-- user range or a module selects that part of a span.
-- Without edits it is empty.
-- One row per edit, and span that it selects.
-- Key: scenario, edit, thread_id, position.
CREATE TABLE prediction.chosen_span (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- What the edit changes, as in `prediction.scenario_edit`.
    target,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- Type of the span, as in `prediction.editable_span`.
    type,
    -- [ns] Its measured duration.
    span_ns,
    -- [ns] The selected part.
    chosen_ns
) AS
WITH
candidate AS (
    SELECT candidate.*, numbered.scenario IS NOT NULL AS counts
    FROM prediction.edit_candidate AS candidate
    LEFT JOIN (
        SELECT scenario, position AS edit
        FROM prediction.scenario_edit
        WHERE instance IS NOT NULL AND op IS NULL AND shape IS NULL AND target <> 'op'
    ) AS numbered USING (scenario, edit)
),

-- The edits that select by time.
timed AS (
    SELECT DISTINCT scenario, edit FROM prediction.edit_field
),

chosen AS (
    SELECT candidate.*, end_ns - start_ns AS chosen_ns
    FROM candidate
    ANTI JOIN timed USING (scenario, edit)
    UNION ALL
    SELECT candidate.*, chosen_ns
    FROM (
        SELECT
            scenario, edit, thread_id, position, sum(end_ns - start_ns)::BIGINT AS chosen_ns
        FROM prediction.chosen_part
        GROUP BY scenario, edit, thread_id, position
    )
    INNER JOIN candidate USING (scenario, edit, thread_id, position)
),

-- Ordinals count within a step, or within the trace outside of steps; spans of one op or
-- call share one.
numbered AS (
    SELECT
        chosen.*,
        dense_rank() OVER (
            PARTITION BY
                scenario, edit, chosen.trace_id,
                CASE WHEN step.end_ns > chosen.start_ns THEN step_id END
            ORDER BY named_start_ns, chosen.thread_id
        ) AS ordinal
    FROM chosen
    ASOF LEFT JOIN staging.step AS step
        ON chosen.trace_id = step.trace_id AND chosen.start_ns >= step.start_ns
    WHERE counts
)

SELECT
    scenario, edit, target, trace_id, thread_id, position, type, end_ns - start_ns, chosen_ns
FROM chosen
WHERE NOT counts
UNION ALL
SELECT DISTINCT
    scenario, edit, target, trace_id, thread_id, position, type, end_ns - start_ns, chosen_ns
FROM numbered
INNER JOIN prediction.edit_number USING (scenario, edit)
WHERE field = 'instance' AND numbered.ordinal BETWEEN low AND high;
