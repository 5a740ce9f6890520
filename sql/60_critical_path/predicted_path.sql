-- The critical paths of the simulation: of the period of each step, of its mark, and of
-- each step of a run of several
-- ranks, from the first rank's begin to the last one's end, as `critical_path.path` has
-- them of what was measured.
-- One row per variant and path.
-- Key: variant_id, scope, path_id.
CREATE VIEW critical_path.predicted_path (
    -- Rung and scenario, as in `prediction.variant`.
    variant_id,
    -- `period`, `step` or `run`.
    scope,
    -- The step at whose end it ends.
    path_id,
    -- The run it is of.
    run_id,
    -- The trace in which it ends.
    trace_id,
    -- Number of the step.
    step,
    -- [ns] Begin, of a run from the origin of the run's clock, else from the trace's begin.
    start_ns,
    -- [ns] End, likewise.
    end_ns,
    -- [ns] What to add to times of the trace in which it ends for these times.
    shift_ns,
    -- GPU work that it ends with; NULL on the host.
    kernel_id
) AS
WITH
timed AS (
    SELECT
        variant_id,
        step_id,
        predicted.run_id,
        predicted.trace_id,
        step.step,
        predicted.start_ns,
        predicted.end_ns,
        run_origin_ns
    FROM critical_path.predicted_step AS predicted
    INNER JOIN prediction.variant USING (scenario, rung)
    INNER JOIN staging.step AS step USING (step_id)
    INNER JOIN critical_path.origin AS origin ON predicted.trace_id = origin.trace_id
    WHERE predicted.end_ns > predicted.start_ns
),

together AS (
    SELECT
        *,
        min(start_ns + run_origin_ns) OVER in_run AS first_ns,
        count(DISTINCT trace_id) OVER in_run AS rank_count,
        row_number() OVER (
            PARTITION BY variant_id, run_id, step
            ORDER BY end_ns + run_origin_ns DESC, step_id
        ) AS place
    FROM timed
    WHERE run_origin_ns IS NOT NULL
    WINDOW in_run AS (PARTITION BY variant_id, run_id, step)
)

SELECT
    variant_id, 'period', step_id, period.run_id, period.trace_id, step.step,
    period.start_ns, period.end_ns, 0,
    CASE WHEN host_end_ns < period.end_ns THEN last_kernel_id END
FROM critical_path.step_period AS period
INNER JOIN staging.step AS step USING (step_id)
WHERE variant_id > 0 AND period.end_ns > period.start_ns
UNION ALL
SELECT variant_id, 'step', step_id, run_id, trace_id, step, start_ns, end_ns, 0, NULL
FROM timed
UNION ALL
SELECT
    variant_id, 'run', step_id, run_id, trace_id, step, first_ns, end_ns + run_origin_ns,
    run_origin_ns, NULL
FROM together
WHERE place = 1 AND rank_count > 1;
