-- The pieces of host time in steps that overheads are learnt from (Lin et al. 2022,
-- section 3), and what tells one from another. A piece in several steps, as when steps
-- of threads overlap, counts in its own thread's.
-- One row per piece of host time in a step, but for waits, and for the time in which other
-- threads than the step's have not begun or are done.
-- Key: thread_id, position.
CREATE VIEW overhead.sample (
    -- Host thread.
    thread_id,
    -- Place of the piece on its thread, as in `overhead.timeline`.
    position,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The step.
    step_id,
    -- T1..T5, idle or wait_data.
    type,
    -- Name of the op (T2, T3, T5, wait_data) or of the call (T4); of T1 the op or the call
    -- after it; else empty.
    name,
    -- Role of the host thread.
    role,
    -- What the op or the call is for: dimensions of the op's arguments, and of a call the
    -- op's name and them.
    shapes,
    -- How many of its type and name were before it in the step on its thread.
    place,
    -- How many of its type and name there are in the step on its thread.
    place_count,
    -- [ns] Duration.
    sample_ns
) AS
WITH
piece AS (
    SELECT
        interval.*,
        interval.thread_id = step.thread_id AS is_step_thread,
        lead(op_id) OVER on_thread AS next_op_id,
        lead(launch_id) OVER on_thread AS next_launch_id
    FROM overhead.interval
    INNER JOIN staging.step ON interval.step_id = step.step_id
    WINDOW on_thread AS (
        PARTITION BY interval.step_id, interval.thread_id ORDER BY interval.position
    )
    QUALIFY row_number() OVER (
        PARTITION BY interval.thread_id, interval.position
        ORDER BY is_step_thread DESC, step.start_ns DESC, step.step_id
    ) = 1
),

named AS (
    SELECT
        piece.thread_id,
        piece.position,
        piece.run_id,
        piece.trace_id,
        piece.step_id,
        piece.type,
        CASE
            WHEN type IN ('T2', 'T3', 'T5') THEN op.name
            WHEN type = 'wait_data' THEN coalesce(op.name, '')
            WHEN type = 'T4' THEN call.name
            WHEN type = 'T1' THEN coalesce(op.name, call.name, '')
            ELSE ''
        END AS name,
        role,
        CASE type
            WHEN 'T1' THEN ''
            WHEN 'T4' THEN concat(op.name, ' ', op.input_dims::VARCHAR)
            ELSE coalesce(op.input_dims::VARCHAR, '')
        END AS shapes,
        piece.end_ns - piece.start_ns AS sample_ns
    FROM piece
    INNER JOIN staging.thread ON piece.thread_id = thread.thread_id
    LEFT JOIN staging.op
        ON CASE type WHEN 'T1' THEN next_op_id ELSE piece.op_id END = op.op_id
    LEFT JOIN staging.launch AS call
        ON
            CASE type WHEN 'T1' THEN next_launch_id WHEN 'T4' THEN piece.launch_id END
            = call.launch_id
    WHERE type LIKE 'T_' OR type = 'wait_data' OR (type = 'idle' AND is_step_thread)
)

SELECT
    thread_id,
    position,
    run_id,
    trace_id,
    step_id,
    type,
    name,
    role,
    shapes,
    row_number() OVER (
        PARTITION BY step_id, thread_id, type, name ORDER BY position
    ) - 1,
    count(*) OVER (PARTITION BY step_id, thread_id, type, name),
    sample_ns
FROM named;
