-- What the edits of a scenario take off the baseline's critical paths of periods: for each
-- interval, the time that they remove from it, less what they insert there.
-- One row per variant of a scenario, interval of a baseline's path, and whether it is
-- inserted; empty unless scenarios are requested.
-- Key: variant_id, path_id, start_ns, is_inserted.
CREATE VIEW critical_path.path_gain (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The baseline's path, as in `critical_path.path`.
    path_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The step.
    step_id,
    -- [ns] Start of the interval.
    start_ns,
    -- Whether it is time that the edits insert.
    is_inserted,
    -- [ns] Time that the edits remove; negative for what they insert.
    gain_ns
) AS
WITH
predicted AS (
    SELECT variant_id, 'span' AS thing, thread_id AS thing_id, position, predicted_ns
    FROM prediction.host_time
    UNION ALL
    SELECT variant_id, 'work', gpu_op_id, 0, predicted_ns
    FROM prediction.gpu_time
    UNION ALL
    SELECT variant_id, 'launch', gpu_op_id, 0, launch_delay_ns - submit_ns
    FROM prediction.gpu_time
    UNION ALL
    SELECT variant_id, 'stream', gpu_op_id, 0, stream_delay_ns
    FROM prediction.gpu_time
    UNION ALL
    SELECT variant_id, 'stream_wait', gpu_op_id, 0, wait_delay_ns
    FROM prediction.gpu_time
    UNION ALL
    SELECT variant_id, 'return', thread_id, position, delay_ns
    FROM prediction.host_time
    WHERE awaited_gpu_op_id IS NOT NULL
),

pair AS (
    SELECT edited.variant_id, baseline.variant_id AS base_id
    FROM prediction.variant AS edited
    INNER JOIN prediction.variant AS baseline USING (method)
    WHERE edited.scenario <> 'baseline' AND baseline.scenario = 'baseline'
),

-- What is inserted where: between spans of a thread, and after work of a stream or before
-- it, unless that started because of its launch.
inserted AS (
    SELECT
        variant_id, 'span' AS thing, thread_id AS thing_id, position,
        before_ns + after_ns AS inserted_ns
    FROM prediction.host_insert
    UNION ALL
    SELECT
        variant_id,
        unnest(CASE WHEN is_after THEN ['work'] ELSE ['stream', 'stream_wait'] END),
        beside_gpu_op_id,
        0,
        predicted_ns + stream_delay_ns
    FROM prediction.inserted_work
)

-- A path may contain only part of a node: its first part in the period.
SELECT
    pair.variant_id,
    path.path_id,
    path.run_id,
    path.trace_id,
    path.path_id,
    path.start_ns,
    false,
    round(
        least(path.time_ns, base.predicted_ns)
        * (1 - coalesce(own.predicted_ns, 0) / base.predicted_ns)
    )::BIGINT
FROM pair
INNER JOIN critical_path.path_thing AS path ON base_id = path.variant_id
INNER JOIN predicted AS base
    ON
        base_id = base.variant_id
        AND path.thing = base.thing
        AND path.thing_id = base.thing_id
        AND path.position = base.position
LEFT JOIN predicted AS own
    ON
        pair.variant_id = own.variant_id
        AND path.thing = own.thing
        AND path.thing_id = own.thing_id
        AND path.position = own.position
WHERE base.predicted_ns > 0
UNION ALL
SELECT
    pair.variant_id, path_id, run_id, trace_id, path_id, path.start_ns, true,
    -sum(inserted_ns)::BIGINT
FROM pair
INNER JOIN inserted USING (variant_id)
INNER JOIN (
    SELECT
        variant_id, path_id, run_id, trace_id, thing, thing_id, position,
        min(start_ns) AS start_ns
    FROM critical_path.path_thing
    GROUP BY ALL
) AS path
    ON
        base_id = path.variant_id
        AND inserted.thing = path.thing
        AND inserted.thing_id = path.thing_id
        AND inserted.position = path.position
GROUP BY ALL;
