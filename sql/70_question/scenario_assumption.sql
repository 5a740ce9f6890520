-- What do the edits of a scenario assume that no trace tells?
-- One row per scenario, edit and assumption; a database at rest has no scenarios
-- (`tracedb whatif`).
-- Key: scenario, edit, assumption.
CREATE VIEW question.scenario_assumption (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- What is assumed, and which value of the edit changes it.
    assumption
) AS
WITH
edit AS (
    SELECT scenario, scenario_position, position AS edit, * EXCLUDE (
        scenario, scenario_position, position
    )
    FROM prediction.scenario_edit
),

replay AS (
    SELECT
        max(host_ns) / 1_000 AS host_us,
        max(gap_ns) / 1_000 AS gap_us,
        sum(replay_count) > 0 AS is_learnt
    FROM prediction.graph_replay
),

-- Steps whose data come from worker processes, if that takes more than 1 % of their time.
loaded AS (
    SELECT avg(loading_ns) / 1e6 AS loading_ms
    FROM (
        SELECT
            any_value(step.end_ns - step.start_ns) AS step_ns,
            coalesce(
                sum(loading.end_ns - loading.start_ns)
                    FILTER (contains(range.name, '_MultiProcessing')),
                0
            ) AS loading_ns
        FROM staging.step AS step
        LEFT JOIN staging.data_loading AS loading
            ON
                step.trace_id = loading.trace_id
                AND loading.start_ns >= step.start_ns
                AND loading.start_ns < step.end_ns
        LEFT JOIN staging.annotation AS range USING (annotation_id)
        GROUP BY step.step_id
    )
    HAVING avg(loading_ns) > 0.01 * avg(step_ns)
),

-- Threads beside the main one that work in steps, for more than 1 % of their time.
beside AS (
    SELECT
        event.thread_id,
        any_value(thread.name) AS name,
        sum(least(event.end_ns, step.end_ns) - event.start_ns)
        / nullif(any_value(step_count), 0) / 1e6 AS working_ms
    FROM (
        SELECT
            *,
            count(*) OVER of_trace AS step_count,
            avg(end_ns - start_ns) OVER of_trace AS step_ns
        FROM staging.step
        WINDOW of_trace AS (PARTITION BY trace_id)
    ) AS step
    INNER JOIN graph.top_level_event AS event
        ON
            step.trace_id = event.trace_id
            AND event.start_ns >= step.start_ns
            AND event.start_ns < step.end_ns
    INNER JOIN staging.thread AS thread ON event.thread_id = thread.thread_id
    WHERE role <> 'main' AND event.thread_id <> step.thread_id
    GROUP BY event.thread_id
    HAVING working_ms > 0.01 * any_value(step_ns) / 1e6
),

-- Of these, the ones that no wait ties to another one, or only in one direction.
loose AS (
    SELECT
        is_assumed,
        count(*) AS thread_count,
        max(working_ms) AS working_ms,
        arg_max(name, working_ms) AS thread_name
    FROM (
        SELECT *, thread_id IN (
            SELECT worker_thread_id FROM graph.ready_wait WHERE graph.ready_wait.is_assumed
        ) AS is_assumed
        FROM beside
        WHERE
            is_assumed
            OR thread_id NOT IN (
                SELECT unnest([thread_id, worker_thread_id]) FROM graph.thread_wait
            )
    )
    GROUP BY is_assumed
),

assumed AS (
    SELECT
        scenario, min(edit) AS edit, format(
            'waits for data from worker processes stay as recorded, {:.3f} ms per step: if '
            || 'loading bounds the steps, they last as long as before',
            any_value(loading_ms)
        ) AS assumption
    FROM edit
    CROSS JOIN loaded
    GROUP BY scenario
    HAVING NOT bool_or(coalesce(type = 'wait_data', false))
    UNION ALL
    SELECT
        scenario, min(edit), format(
            '{} beside the main one, {:.3f} ms per step in {}: no wait for such a thread is '
            || 'seen{}',
            CASE thread_count WHEN 1 THEN '1 thread' ELSE thread_count || ' threads' END,
            working_ms,
            coalesce(thread_name, 'an unnamed one'),
            CASE
                WHEN is_assumed
                    THEN ', so its work is taken to be done when it is woken again'
                ELSE ', nor one of its own, so it is taken to work by itself'
            END
        )
    FROM edit
    CROSS JOIN loose
    GROUP BY scenario, is_assumed, thread_count, working_ms, thread_name
    UNION ALL
    SELECT
        scenario, edit, format(
            'a graph takes {:g} us to launch, and its work starts {:g} us apart, {}',
            coalesce(edit.host_ns / 1_000, host_us), coalesce(edit.gap_ns / 1_000, gap_us),
            CASE
                WHEN is_learnt THEN 'as in recorded graphs'
                ELSE 'because none was recorded; set host_ns and gap_ns'
            END
        ) AS assumption
    FROM edit
    CROSS JOIN replay
    WHERE action = 'graph' AND (edit.host_ns IS NULL OR edit.gap_ns IS NULL)
    UNION ALL
    SELECT DISTINCT
        scenario, edit,
        'each fused kernel reads what the one before it wrote, and nothing else does, because '
        || 'no execution graph was recorded; set gpu_ns'
    FROM edit
    INNER JOIN prediction.fused_work AS work USING (scenario, edit)
    WHERE action = 'fuse' AND gpu_ns IS NULL AND work.trace_id NOT IN (
        SELECT trace_id FROM graph.data_edge
    )
    UNION ALL
    SELECT scenario, edit, 'it depends on nothing in the step, and each worker has its own core'
    FROM edit
    WHERE action = 'overlap' AND target = 'host'
    UNION ALL
    SELECT scenario, edit, 'it takes as long next to other work as it took'
    FROM edit
    WHERE action = 'move' OR (action = 'overlap' AND target = 'gpu')
    UNION ALL
    SELECT scenario, edit, 'of the gaps around a removed op the longest stays; gaps=all keeps all'
    FROM edit
    WHERE action = 'remove' AND target = 'op' AND coalesce(gaps, 'longest') = 'longest'
        AND part IS NULL
    UNION ALL
    SELECT scenario, edit, 'what waited does not need what it waited for'
    FROM edit
    WHERE action = 'unsync'
    UNION ALL
    SELECT
        scenario, edit,
        format('recording an event costs {:.2f} us, which is an estimate', event_ns / 1_000)
    FROM edit
    CROSS JOIN (SELECT avg(event_ns) AS event_ns FROM overhead.profiler_cost)
    WHERE target = 'profiler'
)

SELECT assumed.*
FROM assumed
INNER JOIN edit USING (scenario, edit)
ORDER BY scenario_position, edit, assumption;
