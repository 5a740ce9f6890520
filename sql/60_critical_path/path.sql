-- All critical paths: of the period of each step, of its mark, of each trace from its start
-- to its end (only as measured), and of each step of a run with several ranks, from the
-- first rank's start to the last rank's end. A path is followed from its end
-- (`critical_path.hop`) and partitions its time (`critical_path.interval`). By default only
-- measured paths are included, variant 0, so that sums count nothing twice; methods and
-- scenarios are added on request (`tracedb sql --method`).
-- One row per variant (0 is measured) and path.
-- Key: variant_id, scope, path_id.
CREATE VIEW critical_path.path (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- `period`, `step` (its mark), `trace` or `run`.
    scope,
    -- The step at whose end it ends; the trace.
    path_id,
    -- The run.
    run_id,
    -- The trace in which it ends.
    trace_id,
    -- The step at whose end it ends; NULL for a trace.
    step_id,
    -- Number of the step; NULL for a trace.
    step,
    -- [ns] Start; for a run by the run's clock (`graph.clock`), otherwise by the trace's.
    -- The simulation starts when the trace does.
    start_ns,
    -- [ns] End, by the same clock.
    end_ns,
    -- The host thread on which it ends; NULL on a device.
    thread_id,
    -- The GPU work with which it ends; NULL on the host.
    gpu_op_id,
    -- [ns] Offset to add to times of the trace in which it ends to get times of the path's
    -- clock.
    shift_ns
) AS
WITH
timed AS (
    SELECT
        period.variant_id,
        period.step_id,
        period.run_id,
        period.trace_id,
        step.step,
        step.thread_id,
        period.host_start_ns + origin_ns AS host_start_ns,
        period.host_end_ns + origin_ns AS host_end_ns,
        period.start_ns + origin_ns AS start_ns,
        period.end_ns + origin_ns AS end_ns,
        last_gpu_op_id,
        run_origin_ns - origin_ns AS shift_ns
    FROM critical_path.step_period AS period
    INNER JOIN prediction.variant AS variant USING (variant_id)
    INNER JOIN staging.step AS step USING (step_id)
    INNER JOIN simulation.origin AS origin ON period.trace_id = origin.trace_id
    WHERE is_simulated AND is_asked
),

together AS (
    SELECT
        *,
        min(host_start_ns + shift_ns) OVER in_run AS first_ns,
        count(DISTINCT trace_id) OVER in_run AS rank_count,
        row_number() OVER (
            PARTITION BY variant_id, run_id, step
            ORDER BY host_end_ns + shift_ns DESC, step_id
        ) AS ordinal
    FROM timed
    WHERE host_end_ns > host_start_ns AND shift_ns IS NOT NULL
    WINDOW in_run AS (PARTITION BY variant_id, run_id, step)
)

SELECT
    0, scope, path_id, run_id, trace_id, step_id, step, start_ns, end_ns, thread_id,
    gpu_op_id, shift_ns
FROM critical_path.measured_path
UNION ALL
SELECT
    variant_id, 'period', step_id, run_id, trace_id, step_id, step, start_ns, end_ns,
    CASE WHEN host_end_ns = end_ns THEN thread_id END,
    CASE WHEN host_end_ns < end_ns THEN last_gpu_op_id END,
    0
FROM timed
WHERE end_ns > start_ns
UNION ALL
SELECT
    variant_id, 'step', step_id, run_id, trace_id, step_id, step, host_start_ns,
    host_end_ns, thread_id, NULL, 0
FROM timed
WHERE host_end_ns > host_start_ns
UNION ALL
SELECT
    variant_id, 'run', step_id, run_id, trace_id, step_id, step, first_ns,
    host_end_ns + shift_ns, thread_id, NULL, shift_ns
FROM together
WHERE ordinal = 1 AND rank_count > 1;
