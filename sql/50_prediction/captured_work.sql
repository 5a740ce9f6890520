-- GPU work that edits capture as a CUDA graph, to be put on the device by one launch: the
-- selected work that a thread launches consecutively in one step, with nothing in between:
-- neither an unselected launch, nor that of inserted work, nor a wait of the thread. What a call waits for, and what a
-- recorded graph launched, is not captured. What the scenario removes is ignored, and
-- separates nothing.
-- Without edits it is empty.
-- One row per edit and GPU op that it captures with others.
-- Key: scenario, edit, gpu_op_id.
CREATE TABLE prediction.captured_work (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- The first of the graph, whose launch becomes that of the graph.
    first_gpu_op_id,
    -- Call that launched it.
    call_id,
    -- Call that becomes the launch of the graph.
    graph_call_id,
    -- Host thread of the launch.
    launch_thread_id,
    -- Position of the span in which it was launched.
    own_position,
    -- Position of the span in which the graph is.
    launch_position,
    -- Whether the previous work on its stream, or the one it moves to, is also in the graph.
    follows,
    -- [ns] Delay after that, if it follows.
    gap_ns,
    -- [ns] Delay after the graph is submitted.
    launch_delay_ns,
    -- [ns] From the start of that launch until it submitted its work, as measured.
    submit_ns,
    -- [ns] Time of the graph's launch.
    host_ns
) AS
WITH
chosen AS (
    SELECT
        work.scenario, work.edit, gpu_op_id, edit.gap_ns AS given_gap_ns,
        edit.host_ns AS given_host_ns
    FROM prediction.edited_work AS work
    INNER JOIN prediction.scenario_edit AS edit
        ON work.scenario = edit.scenario AND work.edit = edit.position
    ANTI JOIN prediction.work_edit AS removal
        ON
            work.scenario = removal.scenario
            AND work.gpu_op_id = removal.gpu_op_id
            AND removal.is_removed
    WHERE action = 'graph'
),

-- Number of each thread's launches removed so far.
removed AS (
    SELECT
        scenario,
        thread_id,
        number,
        count(*) OVER (PARTITION BY scenario, thread_id ORDER BY number) AS gone_count
    FROM prediction.cleared_stream
    INNER JOIN prediction.launch_ordinal USING (gpu_op_id)
),

placed AS (
    SELECT
        chosen.*,
        work.* EXCLUDE (gpu_op_id),
        step_id,
        wait.start_ns AS last_wait_ns,
        launch.number - coalesce(gone_count, 0) AS place,
        coalesce(has_before, false) AS has_before,
        coalesce(has_after, false) AS has_after
    FROM chosen
    INNER JOIN graph.stream_position AS work USING (gpu_op_id)
    INNER JOIN prediction.launch_ordinal AS launch USING (gpu_op_id)
    LEFT JOIN prediction.insertion_anchor USING (scenario, gpu_op_id)
    ASOF LEFT JOIN removed
        ON
            chosen.scenario = removed.scenario
            AND launch.thread_id = removed.thread_id
            AND launch.number >= removed.number
    ASOF LEFT JOIN staging.step AS step
        ON work.trace_id = step.trace_id AND launch_start_ns >= step.start_ns
    ASOF LEFT JOIN prediction.standing_wait AS wait
        ON
            chosen.scenario = wait.scenario
            AND launch_thread_id = wait.thread_id
            AND launch_start_ns >= wait.start_ns
    WHERE is_single
),

begun AS (
    SELECT
        *,
        coalesce(
            has_before
            OR lag(has_after) OVER in_order
            OR place <> 1 + lag(place) OVER in_order
            OR step_id IS DISTINCT FROM lag(step_id) OVER in_order
            OR last_wait_ns IS DISTINCT FROM lag(last_wait_ns) OVER in_order,
            true
        ) AS is_first
    FROM placed
    WINDOW in_order AS (
        PARTITION BY scenario, edit, launch_thread_id ORDER BY place
    )
),

grouped AS (
    SELECT
        *,
        last_value(CASE WHEN is_first THEN gpu_op_id END IGNORE NULLS) OVER (
            PARTITION BY scenario, edit, launch_thread_id ORDER BY place
        ) AS first_gpu_op_id
    FROM begun
),

captured AS (
    SELECT
        grouped.*,
        placement.launch_position AS own_position,
        new_stream,
        -- The same for what follows each other on the stream.
        grouped.position - coalesce(cleared.gone_count, 0) - row_number() OVER (
            PARTITION BY grouped.scenario, edit, first_gpu_op_id, grouped.device, grouped.stream
            ORDER BY grouped.position
        ) AS stream_run
    FROM grouped
    LEFT JOIN prediction.new_stream USING (scenario, gpu_op_id)
    ASOF LEFT JOIN prediction.cleared_stream AS cleared
        ON
            grouped.scenario = cleared.scenario
            AND grouped.trace_id = cleared.trace_id
            AND grouped.device = cleared.device
            AND grouped.stream = cleared.stream
            AND grouped.position >= cleared.position
    ASOF LEFT JOIN (
        SELECT thread_id, start_ns, position AS launch_position FROM overhead.timeline
    ) AS placement
        ON
            launch_thread_id = placement.thread_id
            AND launch_start_ns >= placement.start_ns
    QUALIFY count(*) OVER (PARTITION BY grouped.scenario, edit, first_gpu_op_id) > 1
)

SELECT
    captured.scenario, captured.edit, captured.trace_id, captured.gpu_op_id,
    captured.first_gpu_op_id, captured.call_id, first.call_id,
    captured.launch_thread_id,
    captured.own_position,
    first.own_position,
    lag(captured.gpu_op_id) OVER on_stream IS NOT NULL
    AND coalesce(
        coalesce(captured.new_stream, lag(captured.new_stream) OVER on_stream) IS NOT NULL
        OR captured.stream_run = lag(captured.stream_run) OVER on_stream,
        false
    ),
    coalesce(captured.given_gap_ns, replay.gap_ns),
    delay.launch_delay_ns,
    delay.submit_ns,
    coalesce(captured.given_host_ns, replay.host_ns)
FROM captured
INNER JOIN captured AS first
    ON
        captured.scenario = first.scenario
        AND captured.edit = first.edit
        AND captured.first_gpu_op_id = first.gpu_op_id
INNER JOIN prediction.gpu_delay AS delay ON captured.first_gpu_op_id = delay.gpu_op_id
INNER JOIN prediction.graph_replay AS replay ON captured.trace_id = replay.trace_id
WINDOW on_stream AS (
    PARTITION BY
        captured.scenario, captured.edit, captured.first_gpu_op_id, captured.device,
        coalesce(captured.new_stream, captured.stream)
    ORDER BY captured.place
);
