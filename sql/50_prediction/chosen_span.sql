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

-- The fields that select by time; for an op, its start was compared with the others.
timed AS (
    SELECT field.*
    FROM prediction.edit_field AS field
    INNER JOIN prediction.scenario_edit AS edited
        ON field.scenario = edited.scenario AND field.edit = edited.position
    WHERE target <> 'op' OR field = 'op'
),

-- Where a span crosses into or out of the selection.
cut AS (
    SELECT scenario, edit, thread_id, position, end_ns, start_ns AS at_ns
    FROM candidate
    SEMI JOIN timed USING (scenario, edit)
    UNION
    SELECT candidate.scenario, candidate.edit, thread_id, position, candidate.end_ns, at_ns
    FROM (
        SELECT bound.*, position
        FROM (
            SELECT scenario, edit, thread_id, unnest([start_ns, end_ns]) AS at_ns
            FROM prediction.edit_time
        ) AS bound
        ASOF INNER JOIN overhead.timeline AS span
            ON bound.thread_id = span.thread_id AND bound.at_ns >= span.start_ns
    )
    INNER JOIN candidate USING (scenario, edit, thread_id, position)
    WHERE at_ns >= candidate.start_ns AND at_ns < candidate.end_ns
),

piece AS (
    SELECT
        scenario, edit, thread_id, position, at_ns,
        coalesce(lead(at_ns) OVER in_span, end_ns) - at_ns AS piece_ns
    FROM cut
    WINDOW in_span AS (PARTITION BY scenario, edit, thread_id, position ORDER BY at_ns)
),

placed AS (
    SELECT
        piece.scenario, piece.edit, piece.thread_id, position, at_ns,
        any_value(piece_ns) AS piece_ns,
        bool_and(coalesce(time.end_ns > at_ns, false)) AS is_chosen
    FROM piece
    INNER JOIN timed USING (scenario, edit)
    ASOF LEFT JOIN prediction.edit_time AS time
        ON
            piece.scenario = time.scenario
            AND piece.edit = time.edit
            AND timed.field = time.field
            AND piece.thread_id = time.thread_id
            AND piece.at_ns >= time.start_ns
    GROUP BY piece.scenario, piece.edit, piece.thread_id, position, at_ns
),

chosen AS (
    SELECT candidate.*, end_ns - start_ns AS chosen_ns
    FROM candidate
    ANTI JOIN timed USING (scenario, edit)
    UNION ALL
    SELECT candidate.*, chosen_ns
    FROM (
        SELECT scenario, edit, thread_id, position, sum(piece_ns)::BIGINT AS chosen_ns
        FROM placed
        WHERE is_chosen
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
