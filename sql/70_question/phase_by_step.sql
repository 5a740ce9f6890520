-- How much of each step is forward, backward, optimizer and data loading? Time between ops
-- belongs to the batch that is fetched or to the backward pass in which it lies, otherwise
-- to the next op (`graph.phase`) or backward pass if that is in the step, no batch is fetched
-- before it, and no long gap is between two phases; GPU work to the phase that launched it.
-- One row per step and phase, or per trace and phase without steps; none without ops.
-- Key: trace_id, step_id, phase.
CREATE VIEW question.phase_by_step (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step; NULL in traces without steps.
    step_id,
    -- Number of the step; NULL likewise.
    step,
    -- `data_loading`, `inference`, `forward`, `backward`, `gradients`, `optimizer` or `other`.
    phase,
    -- [ns] Time of the step's mark on its thread; without steps, of the main thread.
    host_ns,
    -- [1] Its share; the shares of a step add up to 1.
    host_share,
    -- [ns] GPU work launched by it.
    gpu_ns,
    -- [ns] Time on the critical path of the step's period; without steps, of the trace.
    path_ns,
    -- [1] Its share; the shares of a step add up to 1.
    path_share
) AS
WITH
backward AS (
    SELECT trace_id, start_ns, end_ns FROM graph.backward_range WHERE NOT is_named
),

lane AS (
    SELECT trace_id, step_id, thread_id, start_ns, end_ns FROM staging.step
    UNION ALL
    SELECT trace_id, NULL, thread_id, min(event_ns), max(end_ns)
    FROM graph.phase
    INNER JOIN staging.thread AS thread USING (trace_id, thread_id)
    WHERE role = 'main' AND trace_id NOT IN (SELECT trace_id FROM staging.step)
    GROUP BY trace_id, thread_id
),

-- Everything that may start or end a phase, and the steps that contain it.
bound AS (
    SELECT bound.*, unnest(coalesce(step_ids, [NULL])) AS step_id
    FROM (
        SELECT trace_id, thread_id, unnest([event_ns, end_ns]) AS at_ns FROM graph.phase
        UNION ALL
        SELECT trace_id, thread_id, unnest([start_ns, end_ns]) FROM staging.loading_range
        UNION ALL
        SELECT trace_id, NULL, unnest([start_ns, end_ns]) FROM backward
    ) AS bound
    ASOF LEFT JOIN staging.step_stretch AS stretch
        ON bound.trace_id = stretch.trace_id AND at_ns >= stretch.start_ns
),

cut AS (
    SELECT trace_id, step_id, thread_id, end_ns, unnest([start_ns, end_ns]) AS at_ns
    FROM lane
    UNION
    SELECT lane.trace_id, lane.step_id, lane.thread_id, lane.end_ns, at_ns
    FROM lane
    INNER JOIN bound
        ON
            lane.trace_id = bound.trace_id
            AND lane.step_id IS NOT DISTINCT FROM bound.step_id
            AND coalesce(bound.thread_id, lane.thread_id) = lane.thread_id
            AND at_ns BETWEEN lane.start_ns AND lane.end_ns
),

-- A gap that outlasts a backward pass has a part in it, and one behind it. A wait for a
-- message on the CPU is where it is, like a gap, not where the message was posted.
on_path AS (
    SELECT
        interval.trace_id,
        path.step_id,
        coalesce(node.thread_id, interval.thread_id) AS thread_id,
        coalesce(node.at_ns, CASE part WHEN 1 THEN interval.start_ns ELSE behind_ns END) AS at_ns,
        path.end_ns AS until_ns,
        CASE part WHEN 1 THEN coalesce(behind_ns, interval.end_ns) ELSE interval.end_ns END
        - CASE part WHEN 1 THEN interval.start_ns ELSE behind_ns END AS path_ns
    FROM (
        SELECT
            interval.*,
            CASE
                WHEN
                    node_id IS NULL
                    AND backward.end_ns > interval.start_ns
                    AND backward.end_ns < interval.end_ns
                    THEN backward.end_ns
            END AS behind_ns
        FROM critical_path.interval AS interval
        ASOF LEFT JOIN backward
            ON interval.trace_id = backward.trace_id AND interval.start_ns >= backward.start_ns
    ) AS interval
    INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
    INNER JOIN (VALUES (1), (2)) AS half (part) ON part = 1 OR behind_ns IS NOT NULL
    LEFT JOIN (FROM graph.node_op ANTI JOIN staging.posted_message ON node_id = annotation_id)
        AS node USING (node_id)
    WHERE variant_id = 0 AND critical_path.bounds_period(scope, path.trace_id)
),

part AS (
    SELECT
        trace_id,
        step_id,
        thread_id,
        at_ns,
        end_ns AS until_ns,
        lead(at_ns) OVER (PARTITION BY trace_id, step_id ORDER BY at_ns) - at_ns AS host_ns,
        0 AS gpu_ns, 0 AS path_ns
    FROM cut
    UNION ALL
    SELECT
        work.trace_id, step_id, call.thread_id, call.start_ns, call.end_ns, 0,
        work.end_ns - work.start_ns, 0
    FROM staging.gpu_op AS work
    INNER JOIN staging.call AS call USING (call_id)
    LEFT JOIN staging.step_work USING (gpu_op_id)
    WHERE
        work.kind <> 'other'
        AND (step_id IS NOT NULL OR work.trace_id NOT IN (SELECT trace_id FROM staging.step))
    UNION ALL
    SELECT trace_id, step_id, thread_id, at_ns, until_ns, 0, 0, path_ns
    FROM on_path
),

placed AS (
    SELECT
        part.*,
        CASE
            WHEN at_ns >= event_ns THEN phase.phase
            WHEN at_ns < loading.end_ns THEN 'data_loading'
            WHEN at_ns < backward.end_ns THEN 'backward'
            WHEN next_backward.start_ns < least(event_ns, until_ns, next_loading.start_ns)
                THEN if(graph.is_long_gap(next_backward.start_ns - at_ns), 'other', 'backward')
            WHEN event_ns >= least(until_ns, next_loading.start_ns) THEN 'other'
            WHEN at_ns >= phase.start_ns THEN phase.phase
            WHEN NOT graph.is_long_gap(event_ns - coalesce(backward.end_ns, at_ns))
                THEN phase.phase
            ELSE 'other'
        END AS phase
    FROM part
    ASOF LEFT JOIN graph.phase AS phase
        ON part.thread_id = phase.thread_id AND at_ns < phase.end_ns
    ASOF LEFT JOIN backward
        ON part.trace_id = backward.trace_id AND at_ns >= backward.start_ns
    ASOF LEFT JOIN backward AS next_backward
        ON part.trace_id = next_backward.trace_id AND at_ns < next_backward.start_ns
    ASOF LEFT JOIN staging.loading_range AS loading
        ON part.thread_id = loading.thread_id AND at_ns >= loading.start_ns
    ASOF LEFT JOIN staging.loading_range AS next_loading
        ON part.thread_id = next_loading.thread_id AND at_ns < next_loading.start_ns
)

SELECT
    trace.run_id,
    trace.trace_id,
    rank,
    placed.step_id,
    step,
    phase,
    coalesce(sum(host_ns), 0)::BIGINT AS host_ns,
    sum(host_ns) / nullif(sum(sum(host_ns)) OVER in_step, 0),
    sum(gpu_ns)::BIGINT,
    sum(path_ns)::BIGINT AS path_ns,
    sum(path_ns) / nullif(sum(sum(path_ns)) OVER in_step, 0)
FROM placed
INNER JOIN staging.trace AS trace USING (trace_id)
SEMI JOIN staging.op ON trace.trace_id = op.trace_id
LEFT JOIN staging.step AS step ON placed.step_id = step.step_id
GROUP BY trace.run_id, trace.trace_id, rank, placed.step_id, step, phase
HAVING coalesce(sum(host_ns), 0) + sum(gpu_ns) + sum(path_ns) > 0
WINDOW in_step AS (PARTITION BY trace.trace_id, placed.step_id)
ORDER BY
    trace.trace_id, step, placed.step_id,
    graph.ordinal_of_phase(phase);
