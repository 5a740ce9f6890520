-- What the records of a trace contradict: GPU work, by `graph.recorded_work`; waits that return
-- before the GPU work that they wait for ends; ops that take no time, unlike others of their
-- name; and steps that the recording cuts off, or that have no mark between others.
-- One row per trace and aspect with such cases.
-- Key: trace_id, aspect.
CREATE VIEW graph.contradiction (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- `overrun`, `gpu_clock`, `early_work`, `untimed`, `early_return`, `untimed_op`,
    -- `cut_step` or `lost_step`, as in `question.trust`.
    aspect,
    -- Number of such cases.
    occurrences,
    -- Number of all GPU ops, GPUs, waits, ops or steps.
    all_count,
    -- [ns] Their time; for clocks, `early_work` and `early_return` the largest offset; NULL
    -- if not applicable.
    time_ns
) AS
WITH
-- Waits that return when all earlier work of their thread has ended.
wait AS (
    SELECT run_id, trace_id, thread_id, start_ns, end_ns
    FROM staging.call
    INNER JOIN (
        SELECT trace_id, count(DISTINCT stream) AS stream_count
        FROM staging.gpu_op
        GROUP BY trace_id
        HAVING count(DISTINCT device) = 1
    ) USING (trace_id)
    WHERE staging.awaits_all_work(kind, target, stream_count)
),

waited AS (
    SELECT wait.run_id, wait.trace_id, max(work.end_ns - wait.end_ns) AS early_ns
    FROM staging.gpu_op AS work
    INNER JOIN staging.call AS launch ON work.call_id = launch.call_id
    ASOF INNER JOIN wait
        ON
            work.trace_id = wait.trace_id
            AND launch.thread_id = wait.thread_id
            AND launch.start_ns <= wait.start_ns
    WHERE work.kind <> 'other'
    GROUP BY wait.run_id, wait.trace_id, wait.thread_id, wait.start_ns
),

-- Where some of a name take no time, and the others 10 us at least.
named AS (
    SELECT
        run_id,
        trace_id,
        count(*) AS op_count,
        count(*) FILTER (end_ns = start_ns) AS zero_count,
        min(end_ns - start_ns) FILTER (end_ns > start_ns) >= 10_000
        AND op_count >= 3 * zero_count AS is_unlike
    FROM staging.op
    WHERE NOT is_annotation
    GROUP BY run_id, trace_id, name
),

step AS (
    SELECT
        *,
        step - lag(step) OVER of_trace - 1 AS lost_count,
        start_ns - lag(end_ns) OVER of_trace AS gap_ns,
        median(end_ns - start_ns) OVER (PARTITION BY trace_id) AS median_ns
    FROM staging.step
    WHERE name LIKE 'ProfilerStep#%'
    WINDOW of_trace AS (PARTITION BY trace_id ORDER BY start_ns, step_id)
),

found AS (
    SELECT
        run_id,
        trace_id,
        unnest(['overrun', 'gpu_clock', 'early_work', 'untimed']) AS aspect,
        unnest([overrun_count, clock_count, early_count, untimed_count]) AS occurrences,
        unnest([all_count, device_count, all_count, all_count]) AS all_count,
        unnest([overrun_ns, clock_ns, early_ns, NULL]) AS time_ns
    FROM graph.recorded_work
    UNION ALL
    SELECT
        run_id, trace_id, 'early_return', count(*) FILTER (early_ns > 20_000), count(*),
        max(early_ns)
    FROM waited
    GROUP BY run_id, trace_id
    UNION ALL
    SELECT
        run_id, trace_id, 'untimed_op', sum(zero_count) FILTER (is_unlike), sum(op_count), NULL
    FROM named
    GROUP BY run_id, trace_id
    UNION ALL
    SELECT run_id, trace_id, 'cut_step', count(*) FILTER (is_cut), count(*), NULL
    FROM staging.step
    GROUP BY run_id, trace_id
    UNION ALL
    -- Numbers are not consecutive where recordings were put together, either.
    SELECT
        run_id,
        trace_id,
        'lost_step',
        sum(lost_count) FILTER (
            lost_count > 0
            AND gap_ns / lost_count / median_ns BETWEEN 0.5 AND 2
        ),
        count(*),
        NULL
    FROM step
    GROUP BY run_id, trace_id
)

SELECT run_id, trace_id, aspect, occurrences::BIGINT, all_count::BIGINT, time_ns::BIGINT
FROM found
WHERE occurrences > 0;
