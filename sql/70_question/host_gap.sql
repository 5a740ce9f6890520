-- Where is the host between ops? By the module and the Python function outside PyTorch that
-- are open in the middle of each gap, if Python stacks were recorded.
-- One row per run, role of the thread, function and module.
-- Key: run_id, role, frame, module.
CREATE VIEW question.host_gap (
    -- The run.
    run_id,
    -- Role of the host thread.
    role,
    -- The function, with its file and line, as in `staging.python_frame`; NULL if none is
    -- open or stacks were not recorded.
    frame,
    -- The module, with its enclosing modules; NULL likewise.
    module,
    -- Gaps: T1 spans in steps, or in traces without steps.
    gap_count,
    -- [ns] Their time.
    time_ns,
    -- [ns] The longest gap.
    longest_ns,
    -- [1] Their share of all such gaps of the run.
    time_share
) AS
WITH
placed AS (
    SELECT *, start_ns + (end_ns - start_ns) // 2 AS middle_ns
    FROM overhead.counted_span
    WHERE type = 'T1'
)

SELECT
    placed.run_id,
    role,
    frame.name AS frame,
    module_call.path AS module,
    count(*),
    sum(placed.end_ns - placed.start_ns)::BIGINT AS time_ns,
    max(placed.end_ns - placed.start_ns),
    time_ns / nullif(sum(time_ns) OVER (PARTITION BY placed.run_id), 0)
FROM placed
INNER JOIN staging.thread AS thread ON placed.thread_id = thread.thread_id
ASOF LEFT JOIN graph.open_frame AS frame
    ON placed.thread_id = frame.thread_id AND middle_ns >= frame.at_ns
ASOF LEFT JOIN graph.open_module AS open
    ON placed.thread_id = open.thread_id AND middle_ns >= open.at_ns
LEFT JOIN staging.module_call AS module_call USING (module_call_id)
GROUP BY placed.run_id, role, frame.name, module_call.path
ORDER BY placed.run_id, time_ns DESC, role, frame, module;
