-- Host time that edits let be done ahead of its thread, by workers: what they choose of it,
-- but for launches, waits and idle time. What follows each other, with nothing but launches
-- and waits in between, is one batch, that the thread takes where the first of it was.
-- Without edits it is empty.
-- One row per edit, and span that it overlaps.
-- Key: scenario, edit, thread_id, position.
CREATE TABLE prediction.overlapped_span (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [1] The part of it that is done ahead.
    ahead_share,
    -- Ordinal of the batch among those of the edit on the thread, from 1.
    batch,
    -- Position of the first span of the batch.
    first_position
) AS
WITH
chosen AS (
    SELECT scenario, edit, thread_id, chosen.position, chosen_ns / span_ns AS ahead_share
    FROM prediction.chosen_span AS chosen
    INNER JOIN prediction.scenario_edit AS edit USING (scenario)
    WHERE
        chosen.edit = edit.position
        AND action = 'overlap'
        AND chosen.type NOT IN ('T4', 'idle')
        AND chosen_ns > 0
),

-- Where spans lie among those of their thread that are neither launches nor waits.
placed AS (
    SELECT
        run_id,
        trace_id,
        thread_id,
        position,
        row_number() OVER (PARTITION BY thread_id ORDER BY position) AS ordinal
    FROM overhead.timeline
    WHERE
        thread_id IN (SELECT thread_id FROM chosen)
        AND (type LIKE 'T_' AND type <> 'T4' OR type = 'wait_data')
),

-- Spans of one batch have one number.
numbered AS (
    SELECT
        chosen.*,
        run_id,
        trace_id,
        ordinal - row_number() OVER (PARTITION BY scenario, edit, thread_id ORDER BY position)
        AS number
    FROM chosen
    INNER JOIN placed USING (thread_id, position)
)

SELECT
    scenario,
    edit,
    run_id,
    trace_id,
    thread_id,
    position,
    ahead_share,
    dense_rank() OVER (PARTITION BY scenario, edit, thread_id ORDER BY number),
    min(position) OVER (PARTITION BY scenario, edit, thread_id, number)
FROM numbered;
