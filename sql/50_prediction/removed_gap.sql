-- Time between ops that disappears with removed ops. Where these were, two or more gaps
-- merge into one, in which a program has little more to do than in a single gap: the
-- longest remains, with everything else in it. A wait or a launch between gaps keeps them
-- apart, and so do the start of a step and an op that the scenario inserts there.
-- Without edits it is empty.
-- One row per scenario and span of such time.
-- Key: scenario, thread_id, position.
CREATE TABLE prediction.removed_gap (
    -- The scenario.
    scenario,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position
) AS
WITH
removed AS MATERIALIZED (
    SELECT DISTINCT scenario, trace_id, thread_id, chosen.position
    FROM prediction.chosen_span AS chosen
    INNER JOIN prediction.scenario_edit AS edit USING (scenario)
    WHERE
        chosen.edit = edit.position
        AND edit.target = 'op'
        AND action = 'remove'
        AND coalesce(gaps, 'longest') = 'longest'
        AND chosen_ns = span_ns
),

-- Spans before which ops are inserted.
parted AS (
    SELECT DISTINCT scenario, thread_id, position + is_behind::INTEGER AS position, 1 AS parts
    FROM prediction.inserted_op
),

-- Consecutive spans without another one in between share a number.
stretch AS (
    SELECT
        *,
        position - row_number() OVER in_order
        + 1_000_000_000 * coalesce(sum(parts) OVER in_order, 0) AS number
    FROM (
        SELECT scenario, trace_id, thread_id, position, 0 AS gap_ns, 1 AS op_count
        FROM removed
        UNION ALL
        SELECT scenario, trace_id, thread_id, position, end_ns - start_ns, 0
        FROM (SELECT DISTINCT scenario, thread_id FROM removed)
        INNER JOIN prediction.editable_span USING (thread_id)
        WHERE type = 'T1'
    )
    LEFT JOIN parted USING (scenario, thread_id, position)
    WINDOW in_order AS (PARTITION BY scenario, thread_id ORDER BY position)
),

-- A gap may be divided where another thread's wait ends.
gap AS (
    SELECT *, sum(op_count) OVER so_far AS ordinal
    FROM stretch
    WINDOW so_far AS (PARTITION BY scenario, thread_id, number ORDER BY position)
),

ranked AS (
    SELECT
        scenario, thread_id, number, ordinal,
        row_number() OVER (
            PARTITION BY scenario, thread_id, number
            ORDER BY sum(gap_ns) DESC, ordinal
        ) AS place
    FROM gap
    WHERE op_count = 0
    GROUP BY scenario, thread_id, number, ordinal
)

SELECT scenario, trace_id, thread_id, position
FROM gap
INNER JOIN ranked USING (scenario, thread_id, number, ordinal)
WHERE op_count = 0 AND place > 1;
