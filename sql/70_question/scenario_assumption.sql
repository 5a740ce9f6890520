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
    SELECT * RENAME (position AS edit)
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
    SELECT DISTINCT scenario FROM prediction.removed_gap
    INNER JOIN overhead.timeline USING (thread_id, position)
    WHERE end_ns > start_ns
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
            'collectives with ranks that were not recorded last as recorded, {:.3f} ms per '
            || 'step, however long they then wait for these',
            max(collective_ns) / 1e6
        )
    FROM edit
    SEMI JOIN changing USING (scenario)
    CROSS JOIN overhead.absent_rank
    WHERE collective_ns > 0.01 * step_ns
    GROUP BY scenario
    UNION ALL
    SELECT scenario, min(edit), guess
    FROM edit
    INNER JOIN simulation.guess_text USING (scenario)
    GROUP BY scenario, guess
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
    SELECT DISTINCT scenario, edit,
        'each fused kernel reads what the one before it wrote, and nothing else does, because '
        || 'no execution graph was recorded; set gpu_ns'
    FROM edit
    INNER JOIN prediction.fused_work AS work USING (scenario, edit)
    WHERE action = 'fuse' AND gpu_ns IS NULL AND work.trace_id NOT IN (
        SELECT trace_id FROM graph.data_edge
    )
    UNION ALL
    SELECT
        scenario, edit, 'it depends on nothing in the step, and each worker has its own core'
        || CASE
            WHEN host_ns IS NULL THEN ' and hands over what it has done in no time; set host_ns'
            ELSE ''
        END
    FROM edit
    WHERE action = 'overlap' AND target = 'host'
    UNION ALL
    -- Times on a GPU hardly depend on what else runs there; on a CPU, ops share caches.
    SELECT
        scenario, min(edit), 'other ops on the CPU take as long as before, whatever is left to '
        || 'them of caches, memory and cores'
    FROM edit
    SEMI JOIN changing USING (scenario)
    INNER JOIN prediction.chosen_span AS span USING (scenario, edit)
    WHERE span.type NOT IN ('T1', 'idle')
        AND trace_id NOT IN (SELECT trace_id FROM staging.gpu_op)
    GROUP BY scenario
    UNION ALL
    SELECT
        scenario, edit, format(
            '{}{} the rest as before; a library may choose other kernels instead',
            arg_max(name, (op_count, name)),
            CASE count(*)
                WHEN 1 THEN ', of which ops are removed, does'
                ELSE format(' and {} others, of which ops are removed, do', count(*) - 1)
            END
        )
    FROM (
        SELECT scenario, edit, name, count(*) AS op_count
        FROM prediction.reduced_op
        GROUP BY scenario, edit, name
    )
    GROUP BY scenario, edit
    UNION ALL
    SELECT scenario, edit, 'it takes times by order in the step, where ' || CASE of_what
            WHEN 'run' THEN format('run {} has {} and not {}', from_run, there_count, here_count)
            ELSE format('{}s have from {} to {}', of_what, here_count, there_count)
        END || ' of ' || name
    FROM prediction.unlike_step
    UNION ALL
    SELECT
        scenario, edit, format(
            'what ran next to it on the GPU takes as long as before: {:.3f} ms in all steps',
            sum(together_ns) / 1e6
        )
    FROM edit
    SEMI JOIN changing USING (scenario)
    -- An edit of all delays selects the same work as several types.
    INNER JOIN (SELECT DISTINCT scenario, edit, gpu_op_id FROM prediction.chosen_work)
        USING (scenario, edit)
    INNER JOIN graph.concurrent_work USING (gpu_op_id)
    WHERE action IN ('scale', 'set', 'remove', 'move', 'overlap', 'fuse')
    GROUP BY scenario, edit
    HAVING sum(together_ns) > 0.01 * (SELECT sum(end_ns - start_ns) FROM staging.step)
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
    UNION ALL
    SELECT scenario, edit, note FROM prediction.named_family
)

SELECT assumed.*
FROM assumed
INNER JOIN edit USING (scenario, edit)
ORDER BY scenario_position, edit, assumption;
