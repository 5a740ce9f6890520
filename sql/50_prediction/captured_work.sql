-- GPU work that edits capture as a CUDA graph, to be put on the device by one launch: what
-- they choose of work that a thread launches in turn in one step, where nothing comes
-- between: neither a launch that is not chosen, nor a wait of the thread. What a call waits
-- for, and what a recorded graph launched, is not captured.
-- Without edits it is empty.
-- One row per edit and GPU op that it captures with others.
-- Key: scenario, edit, gpu_op_id.
CREATE TABLE prediction.captured_work (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace it is from.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- The first of the graph, whose launch becomes that of the graph.
    first_gpu_op_id,
    -- Call that launched it.
    call_id,
    -- Host thread of the launch.
    launch_thread_id,
    -- Position of the span in which it was launched.
    own_position,
    -- Position of the span in which the graph is.
    launch_position,
    -- Whether the work before it on its stream is of the graph, too.
    follows,
    -- [ns] Delay after that, where it follows.
    gap_ns,
    -- [ns] Delay after the begin of the graph's launch.
    launch_delay_ns,
    -- [ns] Time for which that launch stalled, as measured.
    stalled_ns,
    -- [ns] What the launch of the graph takes.
    host_ns
) AS
WITH
chosen AS (
    SELECT
        work.scenario,
        work.edit,
        gpu_op_id,
        edit.gap_ns AS given_gap_ns,
        edit.host_ns AS given_host_ns
    FROM prediction.edited_work AS work
    INNER JOIN prediction.scenario_edit AS edit
        ON work.scenario = edit.scenario AND work.edit = edit.position
    WHERE action = 'graph'
),

wait AS (
    SELECT thread_id, start_ns, call_id
    FROM overhead.timeline
    WHERE type LIKE 'wait_%'
),

-- All launches of the threads that something is chosen of, in their order.
launched AS (
    SELECT
        work.*,
        row_number() OVER (
            PARTITION BY launch_thread_id ORDER BY launch_start_ns, position
        ) AS number,
        count(*) OVER (PARTITION BY work.call_id) = 1
        AND work.call_id NOT IN (SELECT call_id FROM wait WHERE call_id IS NOT NULL)
        AS is_single
    FROM graph.stream_position AS work
    WHERE
        call_id IS NOT NULL
        AND launch_thread_id IN (
            SELECT launch_thread_id
            FROM chosen
            INNER JOIN graph.stream_position USING (gpu_op_id)
        )
),

placed AS (
    SELECT chosen.*, launched.* EXCLUDE (gpu_op_id), step_id, wait.start_ns AS last_wait_ns
    FROM chosen
    INNER JOIN launched USING (gpu_op_id)
    ASOF LEFT JOIN staging.step AS step
        ON launched.trace_id = step.trace_id AND launch_start_ns >= step.start_ns
    ASOF LEFT JOIN wait
        ON launch_thread_id = wait.thread_id AND launch_start_ns >= wait.start_ns
    WHERE is_single
),

begun AS (
    SELECT
        *,
        coalesce(
            number <> 1 + lag(number) OVER in_order
            OR step_id IS DISTINCT FROM lag(step_id) OVER in_order
            OR last_wait_ns IS DISTINCT FROM lag(last_wait_ns) OVER in_order,
            true
        ) AS is_first
    FROM placed
    WINDOW in_order AS (
        PARTITION BY scenario, edit, launch_thread_id ORDER BY number
    )
),

grouped AS (
    SELECT
        *,
        last_value(CASE WHEN is_first THEN gpu_op_id END IGNORE NULLS) OVER (
            PARTITION BY scenario, edit, launch_thread_id ORDER BY number
        ) AS first_gpu_op_id
    FROM begun
),

captured AS (
    SELECT grouped.*, placement.launch_position AS own_position
    FROM grouped
    ASOF LEFT JOIN (
        SELECT thread_id, start_ns, position AS launch_position FROM overhead.timeline
    ) AS placement
        ON
            launch_thread_id = placement.thread_id
            AND launch_start_ns >= placement.start_ns
    QUALIFY count(*) OVER (PARTITION BY scenario, edit, first_gpu_op_id) > 1
)

SELECT
    captured.scenario,
    captured.edit,
    captured.trace_id,
    captured.gpu_op_id,
    captured.first_gpu_op_id,
    captured.call_id,
    captured.launch_thread_id,
    captured.own_position,
    first.own_position,
    previous.gpu_op_id IS NOT NULL,
    coalesce(captured.given_gap_ns, replay.gap_ns),
    delay.launch_delay_ns,
    delay.stalled_ns,
    coalesce(captured.given_host_ns, replay.host_ns)
FROM captured
INNER JOIN captured AS first
    ON
        captured.scenario = first.scenario
        AND captured.edit = first.edit
        AND captured.first_gpu_op_id = first.gpu_op_id
LEFT JOIN captured AS previous
    ON
        captured.scenario = previous.scenario
        AND captured.edit = previous.edit
        AND captured.first_gpu_op_id = previous.first_gpu_op_id
        AND captured.previous_gpu_op_id = previous.gpu_op_id
INNER JOIN prediction.gpu_delay AS delay ON captured.first_gpu_op_id = delay.gpu_op_id
INNER JOIN prediction.graph_replay AS replay ON captured.trace_id = replay.trace_id;
