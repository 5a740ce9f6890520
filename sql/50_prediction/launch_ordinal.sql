-- All launches of threads in order, for work that is captured as a graph.
-- Without edits that capture something it is empty.
-- One row per GPU op with a launch.
-- Key: gpu_op_id.
CREATE VIEW prediction.launch_ordinal (
    -- The GPU op.
    gpu_op_id,
    -- Host thread of the launch.
    thread_id,
    -- Ordinal of the launch on its thread.
    number,
    -- Whether its call launched nothing else, and does not wait.
    is_single
) AS
SELECT
    gpu_op_id,
    launch_thread_id,
    row_number() OVER (PARTITION BY launch_thread_id ORDER BY launch_start_ns, position),
    count(*) OVER (PARTITION BY call_id) = 1
    AND call_id NOT IN (
        SELECT call_id
        FROM overhead.timeline
        WHERE type LIKE 'wait_%' AND call_id IS NOT NULL
    )
FROM graph.stream_position
WHERE
    call_id IS NOT NULL
    AND EXISTS (SELECT 1 FROM prediction.scenario_edit WHERE action = 'graph');
