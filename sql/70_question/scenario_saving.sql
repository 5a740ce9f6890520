-- How much of what a scenario removes from the critical paths do the steps gain, and how
-- much is lost to other paths that then bound them?
-- One row per scenario, method and run; empty unless scenarios are requested (`tracedb
-- whatif`).
-- Key: scenario, method, run_id.
CREATE VIEW question.scenario_saving (
    -- The scenario.
    scenario,
    -- The method, as in `prediction.method`.
    method,
    -- The run.
    run_id,
    -- [ns] Mean time per step that the edits remove from the baseline's critical paths of
    -- the periods, less what they insert there: the gain if nothing else took over.
    expected_ns,
    -- [ns] Gain of the mean period.
    saved_ns,
    -- [ns] The first minus the second, if the first is larger.
    lost_ns
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
    SELECT edited.variant_id, edited.scenario, method, baseline.variant_id AS base_id
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
),

part AS (
    -- A path may contain only part of a node: its first part in the period.
    SELECT
        pair.variant_id,
        path.run_id,
        least(path.time_ns, base.predicted_ns)
        * (1 - coalesce(own.predicted_ns, 0) / base.predicted_ns) AS gain_ns
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
    SELECT pair.variant_id, path.run_id, -inserted_ns
    FROM pair
    INNER JOIN inserted USING (variant_id)
    INNER JOIN (
        SELECT DISTINCT variant_id, path_id, run_id, thing, thing_id, position
        FROM critical_path.path_thing
    ) AS path
        ON
            base_id = path.variant_id
            AND inserted.thing = path.thing
            AND inserted.thing_id = path.thing_id
            AND inserted.position = path.position
),

gain AS (
    SELECT variant_id, run_id, sum(gain_ns) AS gain_ns
    FROM part
    GROUP BY variant_id, run_id
)

SELECT
    summary.scenario,
    summary.method,
    summary.run_id,
    round(coalesce(gain_ns, 0) / step_count)::BIGINT AS expected_ns,
    -change_ns AS saved_ns,
    greatest(expected_ns - saved_ns, 0)
FROM question.scenario_summary AS summary
INNER JOIN pair USING (scenario, method)
LEFT JOIN gain ON pair.variant_id = gain.variant_id AND summary.run_id = gain.run_id
ORDER BY pair.variant_id, summary.run_id;
