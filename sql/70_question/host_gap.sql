-- Where is the host between ops? Each gap is divided by the module and the Python function
-- outside PyTorch that are open in it; if no Python stacks were recorded, by the user range.
-- On the thread of the steps, so is what it does in them before the first op of a step and
-- after the last.
-- Equal modules, such as the layers of a model, are together.
-- One row per run, role of the thread, function and class of modules.
-- Key: run_id, role, frame, module.
-- Counts: overhead.counted_span, overhead.step_idle.
CREATE VIEW question.host_gap (
    -- The run.
    run_id,
    -- Role of the host thread.
    role,
    -- The innermost open function outside of PyTorch and Python's standard library, with its
    -- file and line (`graph.open_frame`); on threads whose functions were not recorded, the
    -- innermost user range (`graph.open_range`); NULL if none is open.
    frame,
    -- The innermost open module, or the class of several, as in `question.module_class`;
    -- NULL if none is open or stacks were not recorded.
    module,
    -- Gaps of which a part is there: T1 spans in steps, or in traces without steps, and
    -- `overhead.step_idle`.
    gap_count,
    -- [ns] Their time there.
    time_ns,
    -- [ns] The longest time there in one gap.
    longest_ns,
    -- [1] The share of the time of all gaps of the run.
    time_share,
    -- The modules.
    module_count
) AS
WITH
gap AS (
    SELECT run_id, thread_id, start_ns, end_ns
    FROM overhead.counted_span
    WHERE type = 'T1'
    UNION ALL
    SELECT run_id, thread_id, start_ns, end_ns
    FROM overhead.step_idle
),

part AS (
    SELECT
        gap.run_id,
        role,
        frame,
        module,
        staging.module_class(module) AS class,
        {thread_id: gap.thread_id, at_ns: start_ns} AS gap,
        place.time_ns,
        sum(place.time_ns) OVER (PARTITION BY gap.thread_id, start_ns, frame, class) AS gap_ns
    FROM gap
    INNER JOIN critical_path.gap_place AS place USING (thread_id, start_ns, end_ns)
    INNER JOIN staging.thread AS thread ON gap.thread_id = thread.thread_id
)

SELECT
    run_id,
    role,
    frame,
    CASE count(DISTINCT module) WHEN 1 THEN any_value(module) ELSE class END AS modules,
    count(DISTINCT gap),
    sum(part.time_ns)::BIGINT AS time_ns,
    max(gap_ns)::BIGINT,
    sum(part.time_ns) / nullif(sum(sum(part.time_ns)) OVER (PARTITION BY run_id), 0),
    count(DISTINCT module)
FROM part
GROUP BY run_id, role, frame, class
ORDER BY run_id, time_ns DESC, role, frame, modules;
