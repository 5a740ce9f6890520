-- How edits of parts of a span of host time combine: each part is multiplied by the factors
-- of all edits that select it, and a removed part takes no time. If ops are captured as a
-- graph, their part is removed (`prediction.relaunched_span`).
-- Without edits it is empty.
-- One row per scenario and span of which an edit selects a part.
-- Key: scenario, thread_id, position.
CREATE TABLE prediction.partial_edit (
    -- The scenario.
    scenario,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- The factor for the time of the whole span.
    factor,
    -- Edits all of whose part others remove: they add nothing.
    lost_edits
) AS
WITH
selected AS (
    SELECT
        scenario,
        edit,
        thread_id,
        position,
        action = 'remove' OR coalesce(gone_share < 1, false) AS removes,
        CASE WHEN removes THEN 0 ELSE factor END AS factor,
        chosen_ns < span_ns AS is_partial
    FROM prediction.edited_span AS span
    INNER JOIN (SELECT * RENAME (position AS edit) FROM prediction.scenario_edit)
        USING (scenario, edit)
    LEFT JOIN prediction.relaunched_span USING (scenario, edit, thread_id, position)
),

-- Only spans of which some edit selects a part.
divided AS (
    SELECT selected.*, trace_id, start_ns, end_ns
    FROM selected
    SEMI JOIN (SELECT scenario, thread_id, position FROM selected WHERE is_partial)
        USING (scenario, thread_id, position)
    INNER JOIN overhead.timeline USING (thread_id, position)
),

part AS (
    SELECT * FROM divided WHERE NOT is_partial
    UNION ALL
    SELECT divided.* EXCLUDE (start_ns, end_ns), part.start_ns, part.end_ns
    FROM divided
    INNER JOIN prediction.chosen_part AS part USING (scenario, edit, thread_id, position)
    WHERE is_partial
),

bound AS (
    SELECT scenario, trace_id, thread_id, position, start_ns AS at_ns, end_ns
    FROM divided
    UNION
    SELECT
        scenario, trace_id, thread_id, position, unnest([part.start_ns, part.end_ns]),
        divided.end_ns
    FROM part
    INNER JOIN divided USING (scenario, trace_id, thread_id, position)
),

piece AS (
    SELECT
        * EXCLUDE (end_ns),
        coalesce(lead(at_ns) OVER in_span, end_ns) - at_ns AS piece_ns
    FROM bound
    WINDOW in_span AS (PARTITION BY scenario, thread_id, position ORDER BY at_ns)
    QUALIFY piece_ns > 0
),

-- One row per piece and edit that selects it; without an edit if none does.
edited AS (
    SELECT
        piece.*,
        edit,
        coalesce(factor, 1) AS factor,
        bool_or(removes) OVER (
            PARTITION BY piece.scenario, piece.thread_id, piece.position, at_ns
        ) AS is_gone
    FROM piece
    LEFT JOIN part
        ON
            piece.scenario = part.scenario
            AND piece.thread_id = part.thread_id
            AND piece.position = part.position
            AND at_ns >= part.start_ns
            AND at_ns < part.end_ns
),

multiplied AS (
    SELECT
        scenario, trace_id, thread_id, position, sum(piece_ns * factor) / sum(piece_ns) AS factor
    FROM (
        SELECT
            scenario, trace_id, thread_id, position, at_ns,
            any_value(piece_ns) AS piece_ns, product(factor) AS factor
        FROM edited
        GROUP BY scenario, trace_id, thread_id, position, at_ns
    )
    GROUP BY scenario, trace_id, thread_id, position
),

lost AS (
    SELECT scenario, thread_id, position, list(edit ORDER BY edit) AS lost_edits
    FROM (
        SELECT scenario, thread_id, position, edit
        FROM edited
        GROUP BY scenario, thread_id, position, edit
        HAVING bool_and(is_gone)
    )
    GROUP BY scenario, thread_id, position
)

SELECT scenario, trace_id, thread_id, position, factor, coalesce(lost_edits, [])
FROM multiplied
LEFT JOIN lost USING (scenario, thread_id, position);
