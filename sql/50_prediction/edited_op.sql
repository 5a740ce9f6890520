-- Which ops edits select: by name and by the dimensions of their arguments, in the times of
-- the edit's other fields. Of nested matches the outermost counts; if the edit selects self
-- time, all count.
-- Without edits it is empty.
-- One row per edit that selects ops, and op.
-- Key: scenario, edit, op_id.
CREATE TABLE prediction.edited_op (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- The op.
    op_id,
    -- The outermost enclosing op, or itself.
    top_op_id,
    -- Host thread.
    thread_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
wanted AS (
    SELECT
        scenario,
        position AS edit,
        CASE target WHEN 'op' THEN 'name' ELSE 'op' END AS name_field,
        CASE target WHEN 'op' THEN name ELSE op END AS name,
        shape,
        instance,
        part
    FROM prediction.scenario_edit
    WHERE target = 'op' OR op IS NOT NULL OR shape IS NOT NULL
),

pair AS (
    SELECT scenario, edit, op_id
    FROM wanted
    INNER JOIN prediction.edit_text USING (scenario, edit)
    INNER JOIN staging.op AS op ON text = op.name
    WHERE field = name_field AND text_kind = 'op'
    UNION ALL
    SELECT scenario, edit, op_id
    FROM wanted
    CROSS JOIN staging.op
    WHERE wanted.name IS NULL
),

candidate AS (
    SELECT pair.*, op.trace_id, top_op_id, thread_id, start_ns, end_ns
    FROM pair
    INNER JOIN wanted USING (scenario, edit)
    INNER JOIN staging.op AS op USING (op_id)
    INNER JOIN prediction.edit_trace USING (scenario, edit, trace_id)
    WHERE
        NOT is_annotation
        AND (
            shape IS NULL
            OR (scenario, edit, input_dims::VARCHAR) IN (
                SELECT (scenario, edit, text) FROM prediction.edit_text WHERE field = 'shape'
            )
        )
),

outside AS (
    SELECT scenario, edit, op_id
    FROM candidate
    INNER JOIN prediction.edit_field USING (scenario, edit)
    ASOF LEFT JOIN prediction.edit_range AS range
        ON
            candidate.scenario = range.scenario
            AND candidate.edit = range.edit
            AND edit_field.field = range.field
            AND candidate.thread_id = range.thread_id
            AND candidate.start_ns >= range.start_ns
    WHERE edit_field.field <> 'op' AND coalesce(range.end_ns <= candidate.start_ns, true)
),

outermost AS (
    SELECT candidate.*, wanted.instance
    FROM candidate
    ANTI JOIN outside USING (scenario, edit, op_id)
    INNER JOIN wanted USING (scenario, edit)
    QUALIFY
        part IS NOT NULL
        OR coalesce(
            start_ns >= max(end_ns) OVER (
                PARTITION BY scenario, edit, thread_id ORDER BY start_ns, end_ns DESC, op_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            true
        )
),

-- Ordinals count within a step, or within the trace outside of steps.
numbered AS (
    SELECT
        found.*,
        row_number() OVER (
            PARTITION BY
                found.scenario, found.edit, found.trace_id,
                CASE WHEN step.end_ns > found.start_ns THEN step_id END
            ORDER BY found.start_ns, op_id
        ) AS ordinal
    FROM outermost AS found
    ASOF LEFT JOIN staging.step AS step
        ON found.trace_id = step.trace_id AND found.start_ns >= step.start_ns
    WHERE instance IS NOT NULL
)

SELECT scenario, edit, trace_id, op_id, top_op_id, thread_id, start_ns, end_ns
FROM outermost
WHERE instance IS NULL
UNION ALL
SELECT DISTINCT scenario, edit, trace_id, op_id, top_op_id, thread_id, start_ns, end_ns
FROM numbered
INNER JOIN prediction.edit_number USING (scenario, edit)
WHERE field = 'instance' AND numbered.ordinal BETWEEN low AND high;
