-- The parts of spans of host time that edits select by times: in ops, user ranges, modules,
-- phases, steps and so on. Edits that select by nothing of that kind select whole spans.
-- Without edits it is empty.
-- One row per edit and part of a span, which the edges of the selection divide.
-- Key: scenario, edit, thread_id, position, start_ns.
CREATE TABLE prediction.chosen_part (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Start of the part.
    start_ns,
    -- [ns] End of the part.
    end_ns
) AS
WITH
-- The fields that select by time; for an op, its start was compared with the others.
timed AS (
    SELECT field.*
    FROM prediction.edit_field AS field
    INNER JOIN prediction.scenario_edit AS edited
        ON field.scenario = edited.scenario AND field.edit = edited.position
    WHERE target <> 'op' OR field = 'op'
),

candidate AS MATERIALIZED (
    FROM prediction.edit_candidate
    SEMI JOIN timed USING (scenario, edit)
),

-- Where a span crosses into or out of the selection.
cut AS (
    SELECT scenario, edit, trace_id, thread_id, position, end_ns, start_ns AS at_ns
    FROM candidate
    UNION
    SELECT
        candidate.scenario, candidate.edit, trace_id, thread_id, position, candidate.end_ns,
        at_ns
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
        scenario, edit, trace_id, thread_id, position, at_ns,
        coalesce(lead(at_ns) OVER in_span, end_ns) AS until_ns
    FROM cut
    WINDOW in_span AS (PARTITION BY scenario, edit, thread_id, position ORDER BY at_ns)
)

SELECT
    piece.scenario, piece.edit, any_value(piece.trace_id) AS trace_id, piece.thread_id, position,
    at_ns, any_value(until_ns)
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
HAVING bool_and(coalesce(time.end_ns > at_ns, false));
