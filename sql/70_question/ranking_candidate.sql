-- What might be worth changing? Ops, GPU work, modules, overhead types and waits, with
-- their measured time in steps and on the critical paths of the periods.
-- One row per kind of candidate and name.
-- Key: target, type, field, name.
-- Counts: critical_path.interval, staging.gpu_op, staging.op, overhead.interval,
-- overhead.timeline, graph.stream_wait.
CREATE VIEW question.ranking_candidate (
    -- What an edit of it changes, as in `prediction.scenario_edit`.
    target,
    -- The type; empty: all.
    type,
    -- The edit field that selects it: `name`, `module`; empty: only the type.
    field,
    -- Name of the top-level op or the GPU work, or class of the modules, as in
    -- `question.module_class`, with all submodules; empty without field.
    name,
    -- [ns] Its measured time on critical paths.
    path_ns,
    -- [ns] Its total time.
    total_ns,
    -- [1] Roofline time of its GPU work, as a share of its measured time; NULL if unknown.
    roofline_share
) AS
WITH
on_path AS (
    SELECT node_id, kind, thread_id, sum(end_ns - start_ns) AS path_ns
    FROM critical_path.interval
    WHERE variant_id = 0 AND scope = 'period'
    GROUP BY ALL
),

work_path AS (
    SELECT node_id AS gpu_op_id, sum(path_ns) AS path_ns
    FROM on_path
    WHERE thread_id IS NULL
    GROUP BY node_id
),

top_path AS (
    SELECT coalesce(call.top_op_id, node_id) AS op_id, sum(path_ns) AS path_ns
    FROM on_path
    LEFT JOIN staging.call AS call ON node_id = call_id
    WHERE on_path.thread_id IS NOT NULL
    GROUP BY ALL
)

SELECT
    'gpu', '', 'name', work.name,
    coalesce(sum(path_ns), 0)::BIGINT,
    sum(work.end_ns - work.start_ns)::BIGINT,
    CASE
        WHEN count(roofline.roofline_ns) = count(*)
            THEN least(
                sum(roofline.roofline_ns) / nullif(sum(work.end_ns - work.start_ns), 0), 1
            )
    END
FROM staging.gpu_op AS work
LEFT JOIN work_path USING (gpu_op_id)
LEFT JOIN prediction.kernel_roofline AS roofline ON work.gpu_op_id = roofline.gpu_op_id
GROUP BY work.name
UNION ALL
SELECT
    'host', '', 'name', op.name, coalesce(sum(path_ns), 0)::BIGINT,
    sum(end_ns - start_ns)::BIGINT, NULL
FROM staging.op AS op
LEFT JOIN top_path USING (op_id)
WHERE is_top_level
GROUP BY op.name
UNION ALL
SELECT
    'op', '', 'module', staging.module_class(around) AS class,
    coalesce(sum(path_ns), 0)::BIGINT, sum(op.end_ns - op.start_ns)::BIGINT, NULL
FROM graph.op_module AS op_module
INNER JOIN staging.module_call AS call USING (module_call_id)
INNER JOIN graph.module_within AS within
    ON call.trace_id = within.trace_id AND call.path = within.module
INNER JOIN staging.op AS op ON op_module.op_id = op.op_id
LEFT JOIN top_path ON op.op_id = top_path.op_id
WHERE op.is_top_level
GROUP BY class
UNION ALL
SELECT
    'host', type, '', '', 0, sum(end_ns - start_ns)::BIGINT, NULL
FROM overhead.interval
WHERE type LIKE 'T_' OR type = 'wait_data'
GROUP BY type
UNION ALL
SELECT
    'wait', prediction.wait_target(type) AS waits, '', '', 0,
    sum(end_ns - start_ns)::BIGINT, NULL
FROM overhead.timeline
WHERE type LIKE 'wait_%' AND type <> 'wait_data'
GROUP BY waits
UNION ALL
SELECT 'wait', 'stream', '', '', 0, sum(greatest(excess_ns, 0))::BIGINT, NULL
FROM graph.stream_wait
HAVING count(*) > 0;
