-- Host time that scenarios insert before or after ops: at the start or the end of the op,
-- in or next to the span of host time there.
-- One row per scenario, edit and op next to which something is inserted.
-- Key: scenario, edit, op_id.
CREATE VIEW prediction.inserted_op (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The op next to which it is inserted.
    op_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- Whether it is inserted after the start of that span; otherwise before it.
    is_behind,
    -- [ns] Inserted time.
    host_ns
) AS
WITH
-- An insertion after an op comes after its last nanosecond.
placed AS (
    SELECT
        edited.scenario,
        edited.edit,
        op_id,
        thread_id,
        CASE place WHEN 'after' THEN greatest(end_ns - 1, start_ns) ELSE start_ns END AS at_ns,
        place = 'after' AS is_after,
        end_ns,
        host_ns
    FROM prediction.edited_op AS edited
    INNER JOIN prediction.scenario_edit AS edit
        ON edited.scenario = edit.scenario AND edited.edit = edit.position
    WHERE action = 'insert'
),

located AS (
    SELECT
        placed.* EXCLUDE (end_ns),
        span.position,
        at_ns > span.start_ns OR is_after AS is_behind,
        -- A call that ends with the op waits until then: an insertion after it comes before
        -- what follows.
        is_after AND type LIKE 'wait_%' AND call_id IS NOT NULL
        AND placed.end_ns = span.end_ns AS is_late
    FROM placed
    ASOF INNER JOIN overhead.timeline AS span
        ON placed.thread_id = span.thread_id AND placed.at_ns >= span.start_ns
)

SELECT
    scenario,
    edit,
    located.op_id,
    located.thread_id,
    coalesce(next.position, located.position),
    is_behind AND next.position IS NULL,
    host_ns
FROM located
LEFT JOIN overhead.timeline AS next
    ON is_late AND located.thread_id = next.thread_id AND located.position + 1 = next.position;
