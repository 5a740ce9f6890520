-- Which GPU work edits select: by target, type, name, family, rank, stream, device, process
-- group and what it waits for, and by when its launch started. Work whose launch is not in
-- the trace has no such time.
-- Without edits it is empty.
-- One row per edit, selected aspect, and GPU op that it selects.
-- Key: scenario, edit, type, gpu_op_id.
CREATE TABLE prediction.chosen_work (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- What the edit changes, as in `prediction.scenario_edit`.
    target,
    -- For `gpu` the kind of work, for `wait` `stream`, for `delay` `launch`, `stream` or
    -- `stream_wait`.
    type,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- [ns] Its measured duration.
    work_ns
) AS
WITH
-- The GPU work that can be selected.
known AS (
    SELECT
        'gpu' AS target, CASE WHEN is_collective THEN 'collective' ELSE kind END AS type,
        gpu_op_id
    FROM staging.gpu_op
    UNION ALL
    SELECT unnest(['op', 'delay']), unnest(['gpu', 'launch']), gpu_op_id
    FROM staging.gpu_op
    WHERE call_id IS NOT NULL
    UNION ALL
    SELECT 'delay', 'stream', gpu_op_id
    FROM graph.stream_position
    WHERE previous_gpu_op_id IS NOT NULL
    UNION ALL
    SELECT unnest(['wait', 'delay']), unnest(['stream', 'stream_wait']), gpu_op_id
    FROM graph.stream_wait
),

edit AS (
    SELECT
        * EXCLUDE (position),
        position AS edit,
        target = 'op' OR op IS NOT NULL OR shape IS NOT NULL AS chooses_ops
    FROM prediction.scenario_edit
),

pair AS (
    SELECT scenario, edit, gpu_op_id
    FROM prediction.edit_text
    INNER JOIN staging.gpu_op AS work ON text = work.name
    WHERE field = 'name' AND text_kind = 'gpu_op'
    UNION ALL
    SELECT DISTINCT scenario, edit, gpu_op_id
    FROM prediction.edited_op AS op
    INNER JOIN edit USING (scenario, edit)
    INNER JOIN staging.gpu_op AS work ON op.top_op_id = work.top_op_id
    WHERE target = 'op' OR edit.name IS NULL
    UNION ALL
    SELECT scenario, edit, gpu_op_id
    FROM edit
    CROSS JOIN staging.gpu_op
    WHERE edit.name IS NULL AND NOT chooses_ops
),

candidate AS (
    SELECT
        scenario, edit, target, known.type, gpu_op_id, work.trace_id, call.thread_id,
        coalesce(call.start_ns, work.start_ns) AS at_ns,
        work.end_ns - work.start_ns AS work_ns,
        instance IS NOT NULL AND NOT chooses_ops AS counts
    FROM pair
    INNER JOIN edit USING (scenario, edit)
    INNER JOIN known USING (target, gpu_op_id)
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
    INNER JOIN prediction.edit_trace USING (scenario, edit, trace_id)
    LEFT JOIN staging.call AS call ON work.call_id = call.call_id
    LEFT JOIN staging.collective AS collective ON work.gpu_op_id = collective.node_id
    LEFT JOIN prediction.kernel_roofline AS roofline ON work.gpu_op_id = roofline.gpu_op_id
    WHERE
        (edit.type IS NULL OR edit.type = known.type)
        AND (
            edit.process_group IS NULL
            OR (scenario, edit, collective.process_group) IN (
                SELECT (scenario, edit, text)
                FROM prediction.edit_text
                WHERE field = 'process_group'
            )
        )
        AND (
            edit.family IS NULL
            OR (scenario, edit, roofline.family) IN (
                SELECT (scenario, edit, text)
                FROM prediction.edit_text
                WHERE field = 'family'
            )
        )
        AND (
            NOT chooses_awaited
            OR (scenario, edit, gpu_op_id) IN (
                SELECT (scenario, edit, gpu_op_id) FROM prediction.edit_awaited
            )
        )
        AND (
            edit.stream IS NULL OR EXISTS (
                SELECT 1 FROM prediction.edit_number AS number
                WHERE
                    number.scenario = edit.scenario
                    AND number.edit = edit.edit
                    AND field = 'stream'
                    AND work.stream BETWEEN low AND high
            )
        )
        AND (
            edit.device IS NULL OR EXISTS (
                SELECT 1 FROM prediction.edit_number AS number
                WHERE
                    number.scenario = edit.scenario
                    AND number.edit = edit.edit
                    AND field = 'device'
                    AND work.device BETWEEN low AND high
            )
        )
),

outside AS (
    SELECT scenario, edit, gpu_op_id
    FROM candidate
    INNER JOIN prediction.edit_field AS timed USING (scenario, edit)
    ASOF LEFT JOIN prediction.edit_time AS time
        ON
            candidate.scenario = time.scenario
            AND candidate.edit = time.edit
            AND timed.field = time.field
            AND candidate.thread_id = time.thread_id
            AND candidate.at_ns >= time.start_ns
    WHERE
        (target <> 'op' OR timed.field = 'op')
        AND coalesce(time.end_ns <= candidate.at_ns, true)
        AND (timed.field <> 'node' OR (scenario, edit, gpu_op_id) NOT IN (
            SELECT (scenario, edit, node_id) FROM edit, unnest(nodes) AS node (node_id)
        ))
),

chosen AS (
    FROM candidate
    ANTI JOIN outside USING (scenario, edit, gpu_op_id)
),

-- Ordinals count within a step, or within the trace outside of steps.
numbered AS (
    SELECT
        chosen.*,
        row_number() OVER (
            PARTITION BY
                scenario, edit, CASE target WHEN 'delay' THEN type END, chosen.trace_id,
                CASE WHEN step.end_ns > at_ns THEN step_id END
            ORDER BY at_ns, gpu_op_id
        ) AS ordinal
    FROM chosen
    ASOF LEFT JOIN staging.step AS step
        ON chosen.trace_id = step.trace_id AND at_ns >= step.start_ns
    WHERE counts
)

SELECT scenario, edit, target, type, trace_id, gpu_op_id, work_ns
FROM chosen
WHERE NOT counts
UNION ALL
SELECT DISTINCT scenario, edit, target, type, trace_id, gpu_op_id, work_ns
FROM numbered
INNER JOIN prediction.edit_number USING (scenario, edit)
WHERE field = 'instance' AND numbered.ordinal BETWEEN low AND high;
