-- What would one guess for a step without its graph? Simple baselines for predictions:
-- `other_steps`, the median of the trace's other steps; `step_before`, the previous step;
-- `other_ranks`, the mean of the same step on the other ranks; `common_end`, from its own
-- start to the mean of the other ranks' ends, by the run's clock; `gpu_active`, the busy
-- time of its busiest device; `gpu_scaled`, the same multiplied by the usual ratio in the
-- trace's other steps; `busiest`, the longest work of a host thread without its waits, or
-- of the device, whichever is larger.
-- One row per guess, and step for which it can be made.
-- Key: guess, step_id.
CREATE VIEW question.prediction_guess (
    -- Name of the guess.
    guess,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step.
    step_id,
    -- [ns] Measured time.
    measured_ns,
    -- [ns] The guess.
    guess_ns,
    -- [1] The guess divided by measured, minus 1.
    error_share
) AS
WITH
active AS (
    SELECT step_id, max(active_ns) AS active_ns
    FROM critical_path.device_activity
    WHERE variant_id = 0
    GROUP BY step_id
),

host AS (
    SELECT step_id, max(host_ns) AS host_ns
    FROM (
        SELECT step_id, thread_id, sum(end_ns - start_ns)::BIGINT AS host_ns
        FROM overhead.interval
        WHERE type LIKE 'T_' OR type = 'wait_data'
        GROUP BY step_id, thread_id
    )
    GROUP BY step_id
),

step AS (
    SELECT
        period.run_id,
        period.trace_id,
        step_id,
        step.step,
        step.thread_id,
        period.start_ns + origin_ns + coalesce(shift_ns, 0) AS start_ns,
        period.end_ns + origin_ns + coalesce(shift_ns, 0) AS end_ns,
        period.end_ns - period.start_ns AS measured_ns,
        coalesce(active_ns, 0) AS active_ns,
        coalesce(host_ns, 0) AS host_ns
    FROM critical_path.step_period AS period
    INNER JOIN staging.step AS step USING (step_id)
    INNER JOIN simulation.origin AS origin ON period.trace_id = origin.trace_id
    LEFT JOIN graph.clock AS clock ON period.trace_id = clock.trace_id
    LEFT JOIN active USING (step_id)
    LEFT JOIN host USING (step_id)
    SEMI JOIN staging.whole_step USING (step_id)
    WHERE variant_id = 0
),

guess AS (
    SELECT 'other_steps' AS guess, step_id, median(measured_ns) OVER others AS guess_ns
    FROM step
    WINDOW others AS (
        PARTITION BY thread_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
    )
    UNION ALL
    SELECT 'gpu_scaled', step_id, active_ns * median(measured_ns / active_ns) OVER others
    FROM step
    WHERE active_ns > 0
    WINDOW others AS (
        PARTITION BY thread_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW
    )
    UNION ALL
    SELECT
        'step_before',
        step_id,
        lag(measured_ns) OVER (PARTITION BY thread_id ORDER BY start_ns)
    FROM step
    UNION ALL
    SELECT
        unnest(['other_ranks', 'common_end']),
        step_id,
        unnest([
            avg(measured_ns) OVER others,
            (sum(end_ns) OVER others - start_ns::HUGEINT * count(*) OVER others)
            / nullif(count(*) OVER others, 0)
        ])
    FROM step
    WINDOW others AS (
        PARTITION BY run_id, step ORDER BY trace_id
        RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE GROUP
    )
    UNION ALL
    SELECT 'gpu_active', step_id, active_ns FROM step WHERE active_ns > 0
    UNION ALL
    SELECT 'busiest', step_id, greatest(active_ns, host_ns)
    FROM step
    WHERE greatest(active_ns, host_ns) > 0
)

SELECT
    guess,
    trace_id,
    rank,
    step_id,
    measured_ns,
    round(guess_ns)::BIGINT,
    round(guess_ns) / measured_ns - 1
FROM guess
INNER JOIN step USING (step_id)
INNER JOIN staging.trace AS trace USING (trace_id)
WHERE guess_ns IS NOT NULL AND measured_ns > 0
ORDER BY step_id, guess;
