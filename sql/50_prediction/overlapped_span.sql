-- Host time that edits move ahead of its thread, to workers: the selected spans, except
-- launches, waits and idle time. Consecutive spans, with only launches and waits in
-- between, form one batch, which the thread takes where the first of them was.
-- Without edits it is empty.
-- One row per edit, and span that it overlaps.
-- Key: scenario, edit, thread_id, position.
CREATE TABLE prediction.overlapped_span (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The run.
    run_id,
    -- The trace.
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

-- Positions of spans among those of their thread that are neither launches nor waits.
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

-- Spans of one batch share a number.
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
