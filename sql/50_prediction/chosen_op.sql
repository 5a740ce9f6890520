-- Which ops that compute on the host have their batch size changed by edits: all, or those
-- within the ops, user ranges, modules, phases, steps, ranks and threads that an edit
-- names. An edit that names GPU work, its type, family, stream or device selects none of
-- them.
-- Without edits it is empty.
-- One row per edit and op that it selects.
-- Key: scenario, edit, op_id.
CREATE TABLE prediction.chosen_op (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- What the edit changes, as in `prediction.scenario_edit`.
    target,
    -- The trace.
    trace_id,
    -- The op.
    op_id,
    -- [ns] Its measured self time.
    own_ns
) AS
WITH
wanted AS (
    SELECT
        scenario,
        position AS edit,
        target,
        target = 'op' OR op IS NOT NULL OR shape IS NOT NULL AS chooses_ops
    FROM prediction.scenario_edit
    WHERE
        to_batch IS NOT NULL
        AND coalesce(type, stream, device, family, process_group) IS NULL
        AND (target = 'op' OR name IS NULL)
        AND (chooses_ops OR instance IS NULL)
),

candidate AS (
    SELECT scenario, edit, target, chooses_ops, computing.*
    FROM wanted
    INNER JOIN prediction.edit_trace USING (scenario, edit)
    INNER JOIN prediction.computing_op AS computing USING (trace_id)
),

-- Ops selected by edits are disjoint, not nested.
within AS (
    SELECT candidate.scenario, candidate.edit, candidate.op_id
    FROM candidate
    ASOF INNER JOIN prediction.edited_op AS around
        ON
            candidate.scenario = around.scenario
            AND candidate.edit = around.edit
            AND candidate.thread_id = around.thread_id
            AND candidate.start_ns >= around.start_ns
    WHERE candidate.start_ns < around.end_ns OR candidate.op_id = around.op_id
),

outside AS (
    SELECT candidate.scenario, candidate.edit, op_id
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
)

SELECT scenario, edit, target, trace_id, op_id, own_ns
FROM candidate
ANTI JOIN outside USING (scenario, edit, op_id)
WHERE NOT chooses_ops OR (scenario, edit, op_id) IN (FROM within);
