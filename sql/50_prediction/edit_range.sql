-- When and on which host threads the conditions of edits hold: user ranges,
-- Python functions, modules, phases, steps, nodes and threads, each as a field of the edit. Whatever starts inside is
-- selected; for a span of host time, the part inside.
-- Without edits it is empty.
-- One row per edit, field, thread and uninterrupted time.
-- Key: scenario, edit, field, thread_id, start_ns.
CREATE TABLE prediction.edit_range (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The field: `annotation`, `function`, `module`, `phase`, `step`, `thread` or `node`.
    field,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
-- A module is selected with all its submodules.
module AS (
    SELECT DISTINCT edit.scenario, edit.edit, inner_call.module_call_id
    FROM prediction.edit_text AS edit
    INNER JOIN (SELECT DISTINCT path FROM staging.module_call) AS known
        ON starts_with(
            CASE text_kind
                WHEN 'module' THEN known.path
                ELSE staging.module_class(known.path)
            END || '/',
            edit.text || '/'
        )
    INNER JOIN staging.module_call AS inner_call ON known.path = inner_call.path
    WHERE field = 'module' AND list_contains(getvariable('edit_fields')::VARCHAR[], 'module')
),

node AS (
    SELECT scenario, position, unnest(nodes) AS node_id
    FROM prediction.scenario_edit
),

found AS (
    SELECT scenario, edit, field, thread_id, start_ns, end_ns
    FROM prediction.edit_text
    INNER JOIN staging.annotation ON text = name
    WHERE
        field = 'annotation'
        AND list_contains(getvariable('edit_fields')::VARCHAR[], 'annotation')
    UNION ALL
    SELECT scenario, edit, field, thread_id, start_ns, end_ns
    FROM prediction.edit_text
    INNER JOIN staging.python_frame
        ON text = CASE text_kind WHEN 'function' THEN name ELSE split_part(name, ' (', 1) END
    WHERE
        field = 'function'
        AND list_contains(getvariable('edit_fields')::VARCHAR[], 'function')
    UNION ALL
    SELECT scenario, edit, 'module', thread_id, start_ns, end_ns
    FROM module
    INNER JOIN staging.module_call USING (module_call_id)
    UNION ALL
    SELECT scenario, edit, 'module', thread_id, start_ns, end_ns
    FROM module
    INNER JOIN graph.op_module AS op_module USING (module_call_id)
    INNER JOIN staging.op AS op ON op_module.op_id = op.op_id
    WHERE is_backward
    UNION ALL
    SELECT scenario, position, 'phase', thread_id, start_ns, end_ns
    FROM prediction.scenario_edit AS edit
    INNER JOIN (
        SELECT phase, thread_id, start_ns, end_ns FROM graph.phase
        UNION ALL
        SELECT 'data_loading', thread_id, start_ns, end_ns FROM staging.data_loading
    ) AS phase ON edit.phase = phase.phase
    WHERE list_contains(getvariable('edit_fields')::VARCHAR[], 'phase')
    UNION ALL
    SELECT scenario, edit, field, thread.thread_id, step.start_ns, step.end_ns
    FROM prediction.edit_number
    INNER JOIN staging.step AS step ON step.step BETWEEN low AND high
    INNER JOIN staging.thread AS thread USING (trace_id)
    WHERE field = 'step' AND list_contains(getvariable('edit_fields')::VARCHAR[], 'step')
    UNION ALL
    SELECT
        scenario, edit, field, thread_id,
        -4_000_000_000_000_000_000, 4_000_000_000_000_000_000
    FROM prediction.edit_text
    INNER JOIN staging.thread ON text IN (role, name, tid::VARCHAR)
    WHERE field = 'thread' AND list_contains(getvariable('edit_fields')::VARCHAR[], 'thread')
    UNION ALL
    SELECT scenario, position, 'node', thread_id, start_ns, end_ns
    FROM node
    INNER JOIN graph.node USING (node_id)
    WHERE
        thread_id IS NOT NULL
        AND list_contains(getvariable('edit_fields')::VARCHAR[], 'nodes')
),

-- One that starts before all earlier ones have ended extends them.
joined AS (
    SELECT *, sum(is_new::INTEGER) OVER in_order AS ordinal
    FROM (
        SELECT
            *,
            coalesce(
                start_ns > max(end_ns) OVER (
                    PARTITION BY scenario, edit, field, thread_id ORDER BY start_ns, end_ns
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ),
                true
            ) AS is_new
        FROM found
    )
    WINDOW in_order AS (
        PARTITION BY scenario, edit, field, thread_id ORDER BY start_ns, end_ns
        ROWS UNBOUNDED PRECEDING
    )
)

SELECT scenario, edit, field, trace_id, thread_id, min(start_ns), max(end_ns)
FROM joined
INNER JOIN staging.thread USING (thread_id)
GROUP BY scenario, edit, field, trace_id, thread_id, ordinal;
