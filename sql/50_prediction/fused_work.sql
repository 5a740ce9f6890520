-- GPU work that edits fuse into one launch: the selected kernels and memsets that follow
-- each other on a stream, launched by one thread in one step, with nothing in between:
-- neither other work on the stream, nor a wait of the thread or of the stream. What the
-- scenario removes is ignored, and separates nothing. The resulting time is in
-- `prediction.fused_time`.
-- Without edits it is empty.
-- One row per edit and GPU op that it fuses with others.
-- Key: scenario, edit, gpu_op_id.
CREATE TABLE prediction.fused_work (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- The first of those that become one: itself, if it stays.
    first_gpu_op_id,
    -- Call that launched it.
    call_id,
    -- Its position on the stream.
    position,
    -- [ns] Its measured time.
    work_ns,
    -- [ns] The time given for all of them; NULL if the edit gives none.
    given_ns
) AS
WITH
chosen AS (
    SELECT work.scenario, work.edit, gpu_op_id, work_ns, edit.gpu_ns AS given_ns
    FROM prediction.edited_work AS work
    INNER JOIN prediction.scenario_edit AS edit
        ON work.scenario = edit.scenario AND work.edit = edit.position
    ANTI JOIN prediction.work_edit AS removal
        ON
            work.scenario = removal.scenario
            AND work.gpu_op_id = removal.gpu_op_id
            AND removal.is_removed
    WHERE action = 'fuse'
),

-- Work that waits for another stream in a scenario.
awaiting AS (
    SELECT DISTINCT scenario, gpu_op_id
    FROM (SELECT DISTINCT scenario FROM chosen)
    CROSS JOIN graph.gpu_awaited
    ANTI JOIN prediction.removed_stream_wait USING (scenario, gpu_op_id, awaited_gpu_op_id)
),

-- How much of each stream is removed so far, and how often it waited.
removed AS (
    SELECT
        cleared.*,
        count(awaiting.gpu_op_id) OVER (
            PARTITION BY cleared.scenario, trace_id, device, stream ORDER BY position
        ) AS wait_count
    FROM prediction.cleared_stream AS cleared
    LEFT JOIN awaiting
        ON cleared.scenario = awaiting.scenario AND cleared.gpu_op_id = awaiting.gpu_op_id
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
        wait.start_ns AS last_wait_ns,
        work.position - coalesce(gone_count, 0) AS place,
        coalesce(wait_count, 0) AS wait_count,
        new_stream,
        coalesce(has_before, false) AS has_before,
        coalesce(has_after, false) AS has_after
    FROM chosen
    INNER JOIN graph.stream_position AS work USING (gpu_op_id)
    SEMI JOIN single ON work.call_id = single.call_id
    LEFT JOIN prediction.new_stream AS moved USING (scenario, gpu_op_id)
    LEFT JOIN prediction.insertion_anchor USING (scenario, gpu_op_id)
    ASOF LEFT JOIN removed
        ON
            chosen.scenario = removed.scenario
            AND work.trace_id = removed.trace_id
            AND work.device = removed.device
            AND work.stream = removed.stream
            AND work.position >= removed.position
    ASOF LEFT JOIN staging.step AS step
        ON work.trace_id = step.trace_id AND launch_start_ns >= step.start_ns
    ASOF LEFT JOIN prediction.standing_wait AS wait
        ON
            chosen.scenario = wait.scenario
            AND launch_thread_id = wait.thread_id
            AND launch_start_ns >= wait.start_ns
),

begun AS (
    SELECT
        *,
        (scenario, gpu_op_id) IN (SELECT (scenario, gpu_op_id) FROM awaiting)
        OR coalesce(
            has_before
            OR lag(has_after) OVER in_order
            OR new_stream IS DISTINCT FROM lag(new_stream) OVER in_order
            OR place <> 1 + lag(place) OVER in_order
            OR wait_count <> lag(wait_count) OVER in_order
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
