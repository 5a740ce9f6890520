-- GPU work that edits fuse into one launch: what they choose of kernels and memsets that
-- follow each other on a stream, launched by one thread in one step, where nothing comes
-- between: neither other work on the stream, nor a wait of the thread, nor of the stream.
-- What it then takes is in `prediction.fused_time`.
-- Without edits it is empty.
-- One row per edit and GPU op that it fuses with others.
-- Key: scenario, edit, gpu_op_id.
CREATE TABLE prediction.fused_work (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace it is from.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- The first of those that become one: itself, if it stays.
    first_gpu_op_id,
    -- Call that launched it.
    call_id,
    -- Its position on the stream.
    position,
    -- [ns] What it takes, as measured.
    work_ns,
    -- [ns] What all of them are said to take; NULL where the edit does not say.
    given_ns
) AS
WITH
chosen AS (
    SELECT work.scenario, work.edit, gpu_op_id, work_ns, edit.gpu_ns AS given_ns
    FROM prediction.edited_work AS work
    INNER JOIN prediction.scenario_edit AS edit
        ON work.scenario = edit.scenario AND work.edit = edit.position
    WHERE action = 'fuse'
),

-- Calls that launch one kernel or memset.
single AS (
    SELECT call_id
    FROM staging.gpu_op
    WHERE EXISTS (SELECT 1 FROM chosen)
    GROUP BY call_id
    HAVING
        count(*) = 1
        AND bool_and(kind IN ('kernel', 'memset'))
        AND NOT bool_or(is_collective)
),

wait AS (
    SELECT thread_id, start_ns
    FROM overhead.timeline
    WHERE type LIKE 'wait_%'
),

placed AS (
    SELECT
        chosen.*,
        work.trace_id,
        work.device,
        work.stream,
        work.position,
        work.call_id,
        launch_thread_id,
        launch_start_ns,
        step_id,
        wait.start_ns AS last_wait_ns
    FROM chosen
    INNER JOIN graph.stream_position AS work USING (gpu_op_id)
    SEMI JOIN single ON work.call_id = single.call_id
    ASOF LEFT JOIN staging.step AS step
        ON work.trace_id = step.trace_id AND launch_start_ns >= step.start_ns
    ASOF LEFT JOIN wait
        ON launch_thread_id = wait.thread_id AND launch_start_ns >= wait.start_ns
),

begun AS (
    SELECT
        *,
        gpu_op_id IN (SELECT gpu_op_id FROM graph.gpu_awaited)
        OR coalesce(
            position <> 1 + lag(position) OVER in_order
            OR launch_thread_id IS DISTINCT FROM lag(launch_thread_id) OVER in_order
            OR step_id IS DISTINCT FROM lag(step_id) OVER in_order
            OR last_wait_ns IS DISTINCT FROM lag(last_wait_ns) OVER in_order,
            true
        ) AS is_first
    FROM placed
    WINDOW in_order AS (
        PARTITION BY scenario, edit, trace_id, device, stream ORDER BY position
    )
),

grouped AS (
    SELECT
        *,
        last_value(CASE WHEN is_first THEN gpu_op_id END IGNORE NULLS) OVER (
            PARTITION BY scenario, edit, trace_id, device, stream ORDER BY position
        ) AS first_gpu_op_id
    FROM begun
)

SELECT
    scenario, edit, trace_id, gpu_op_id, first_gpu_op_id, call_id, position, work_ns,
    given_ns
FROM grouped
QUALIFY count(*) OVER (PARTITION BY scenario, edit, first_gpu_op_id) > 1;
