-- Where is the host between ops? Each gap is divided by the module and the Python function
-- outside PyTorch that are open in it, if Python stacks were recorded.
-- One row per run, role of the thread, function and module.
-- Key: run_id, role, frame, module.
CREATE VIEW question.host_gap (
    -- The run.
    run_id,
    -- Role of the host thread.
    role,
    -- The innermost open function, with its file and line, as in `staging.python_frame`;
    -- NULL if none is open or stacks were not recorded.
    frame,
    -- The innermost open module, with its enclosing modules; NULL likewise.
    module,
    -- Gaps of which a part is there: T1 spans in steps, or in traces without steps.
    gap_count,
    -- [ns] Their time there.
    time_ns,
    -- [ns] The longest time there in one gap.
    longest_ns,
    -- [1] The share of the time of all gaps of the run.
    time_share
) AS
SELECT
    gap.run_id,
    role,
    frame,
    module,
    count(*),
    sum(place.time_ns)::BIGINT AS time_ns,
    max(place.time_ns),
    sum(place.time_ns)
    / nullif(sum(sum(place.time_ns)) OVER (PARTITION BY gap.run_id), 0)
FROM overhead.counted_span AS gap
INNER JOIN critical_path.gap_place AS place USING (thread_id, start_ns, end_ns)
INNER JOIN staging.thread AS thread ON gap.thread_id = thread.thread_id
WHERE type = 'T1'
GROUP BY gap.run_id, role, frame, module
ORDER BY gap.run_id, time_ns DESC, role, frame, module;
