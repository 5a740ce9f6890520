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

-- Scenarios that change the time of a step, and so that in which workers load.
changing AS (
    SELECT DISTINCT scenario FROM question.scenario_effect WHERE abs(change_share) > 0.001
),

merging AS (
    SELECT DISTINCT scenario
    FROM prediction.removed_gap
    INNER JOIN overhead.timeline USING (thread_id, position)
    WHERE end_ns > start_ns
),

guessed AS (
    SELECT
        scenario,
        kind,
        count(DISTINCT thread_id) AS thread_count,
        max(guess_ns) / 1e6 AS guess_ms,
        100 * max(working_share) AS working_percent,
        arg_max(thread.name, row(guess_ns, -thread_id)) AS thread_name
    FROM simulation.thread_guess AS guess
    INNER JOIN prediction.variant USING (variant_id)
    INNER JOIN staging.thread AS thread USING (thread_id)
    GROUP BY scenario, kind
),

waited AS (
    SELECT scenario, kind, sum(wait_count) AS wait_count, max(guess_ns) / 1e6 AS guess_ms
    FROM simulation.wait_guess
    INNER JOIN prediction.variant USING (variant_id)
    GROUP BY scenario, kind
),

assumed AS (
    SELECT
        scenario, min(edit) AS edit, format(
            'waits for data from worker processes stay as recorded, {:.3f} ms per step: if '
            || 'loading bounds the steps, they last as long as before',
            max(loading_ns) / 1e6
        ) AS assumption
    FROM edit
    SEMI JOIN changing USING (scenario)
    CROSS JOIN overhead.worker_loading
    WHERE loading_ns > 0.01 * step_ns
    GROUP BY scenario
    HAVING NOT bool_or(coalesce(type = 'wait_data', false))
    UNION ALL
    SELECT
        scenario, min(edit), format(
            CASE kind
                WHEN 'assumed'
                    THEN '{0} beside the main one, {1:.1f} % of the steps in {2}: no wait for such a '
                    || 'thread is seen, so its work is taken to be done when it is woken '
                    || 'again, for which steps wait {3:.3f} ms in all'
                WHEN 'free'
                    THEN '{0} beside the main one, {1:.1f} % of the steps in {2}: no wait for such a '
                    || 'thread is seen, so it is taken to work by itself, and a step starts '
                    || '{3:.3f} ms before what it had done by then'
                ELSE 'rests of {0} may end for another reason than is assumed, in {2}: then '
                || 'they would end up to {3:.3f} ms earlier or later in all'
            END,
            CASE thread_count WHEN 1 THEN '1 thread' ELSE thread_count || ' threads' END,
            working_percent,
            coalesce(thread_name, 'an unnamed one'),
            guess_ms
        )
    FROM edit
    INNER JOIN guessed USING (scenario)
    GROUP BY scenario, kind, thread_count, guess_ms, working_percent, thread_name
    UNION ALL
    SELECT
        scenario, min(edit), format(
            CASE kind
                WHEN 'host'
                    THEN 'what short waits of the host are for, because it is not recorded: if for '
                    || 'other work, {0} of them would end up to {1:.3f} ms earlier or later'
                WHEN 'order'
                    THEN 'calls wait for the same work of other threads as recorded: in the order of '
                    || 'launches that results, {0} of them would end up to {1:.3f} ms earlier or later'
                WHEN 'send'
                    THEN 'sends wait for receivers that come later, which no send of their size is '
                    || 'seen to do, or not to do: if not, {0} of them would end up to {1:.3f} ms earlier'
                ELSE 'streams do not wait for work that was over, because such waits are not '
                || 'recorded: with them, {2} would start up to {1:.3f} ms later'
            END,
            wait_count,
            guess_ms,
            CASE wait_count WHEN 1 THEN '1 GPU op' ELSE wait_count || ' GPU ops' END
        )
    FROM edit
    INNER JOIN waited USING (scenario)
    GROUP BY scenario, kind, wait_count, guess_ms
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
    SEMI JOIN (FROM simulation.concurrent_work INNER JOIN prediction.variant USING (variant_id))
        USING (scenario)
    WHERE action = 'move' OR (action = 'overlap' AND target = 'gpu')
    UNION ALL
    SELECT scenario, edit, 'of the gaps around a removed op the longest stays; gaps=all keeps all'
    FROM edit
    SEMI JOIN merging USING (scenario)
    WHERE action = 'remove' AND target = 'op' AND coalesce(gaps, 'longest') = 'longest'
        AND part IS NULL
    UNION ALL
    SELECT scenario, edit, 'what waited does not need what it waited for'
    FROM edit
    SEMI JOIN (FROM simulation.passed_wait INNER JOIN prediction.variant USING (variant_id))
        USING (scenario)
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
