-- Self time of the ops that edits select: outside of their child ops. An op inside a nested
-- user range also counts as a child.
-- Without edits it is empty.
-- One row per edit that selects self time, op and time without a child op.
-- Key: scenario, edit, op_id, start_ns.
CREATE TABLE prediction.own_time (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- The op.
    op_id,
    -- Host thread.
    thread_id,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH RECURSIVE
chosen AS (
    SELECT edited.*
    FROM prediction.edited_op AS edited
    INNER JOIN prediction.scenario_edit AS edit
        ON edited.scenario = edit.scenario AND edited.edit = edit.position
    WHERE part = 'self'
),

known AS (
    SELECT DISTINCT op_id
    FROM chosen
),

-- Child ops that are in no other child op; after a user range that is there.
nested AS (
    SELECT known.op_id, op.op_id AS inner_id, is_annotation, op.start_ns, op.end_ns
    FROM known
    INNER JOIN staging.op AS op ON known.op_id = op.parent_op_id
    UNION ALL
    SELECT nested.op_id, op.op_id, op.is_annotation, op.start_ns, op.end_ns
    FROM nested
    INNER JOIN staging.op AS op ON nested.inner_id = op.parent_op_id
    WHERE nested.is_annotation
),

-- From the start of an op, or the end of a child op, to the start of the next.
bound AS (
    SELECT op_id, start_ns AS begun_ns, start_ns AS from_ns
    FROM known
    INNER JOIN staging.op AS op USING (op_id)
    UNION ALL
    SELECT op_id, start_ns, end_ns
    FROM nested
    WHERE NOT is_annotation
),

own AS (
    SELECT
        op_id,
        from_ns,
        lead(begun_ns) OVER (PARTITION BY op_id ORDER BY begun_ns, from_ns) AS to_ns
    FROM bound
)

SELECT
    scenario, edit, trace_id, op_id, thread_id, from_ns, coalesce(to_ns, end_ns)
FROM chosen
INNER JOIN own USING (op_id)
WHERE from_ns < coalesce(to_ns, end_ns);
