-- The measured critical paths: of the period of each step (`graph.step_period`), of its
-- mark, of each trace from its start to its end, and of each step of a run with several
-- ranks, from the first rank's start to the last one's end. A path is followed from its end
-- (`critical_path.measured_hop`) and partitions its time
-- (`critical_path.measured_interval`). `critical_path.path` has them together with those of
-- predictions; this relation reads nothing that predicts, so it is not recomputed when
-- predictions change.
-- One row per path.
-- Key: scope, path_id.
CREATE TABLE critical_path.measured_path (
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
    -- [ns] Start; of a run by the run's clock (`graph.clock`), otherwise by the trace's.
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
lasting AS (
    SELECT run_id, trace_id, start_ns, end_ns, thread_id, NULL::BIGINT AS gpu_op_id
    FROM graph.top_level_event
    UNION ALL
    SELECT run_id, trace_id, start_ns, end_ns, NULL, gpu_op_id
    FROM graph.stream_position
),

extent AS (
    SELECT trace_id, min(start_ns) AS start_ns FROM lasting GROUP BY trace_id
),

last_of_trace AS (
    SELECT lasting.*, extent.start_ns AS first_ns
    FROM lasting
    INNER JOIN extent USING (trace_id)
    QUALIFY row_number() OVER (
        PARTITION BY trace_id ORDER BY end_ns DESC, thread_id, gpu_op_id
    ) = 1
),

-- Steps of one number, by the run's clock.
together AS (
    SELECT
        marked.*,
        shift_ns,
        min(start_ns + shift_ns) OVER in_run AS first_ns,
        count(DISTINCT marked.trace_id) OVER in_run AS rank_count,
        row_number() OVER (
            PARTITION BY marked.run_id, step
            ORDER BY end_ns + shift_ns DESC, step_id
        ) AS ordinal
    FROM staging.step AS marked
    INNER JOIN graph.clock USING (trace_id)
    WINDOW in_run AS (PARTITION BY marked.run_id, step)
)

SELECT
    'period', step_id, period.run_id, period.trace_id, step_id, period.step,
    period.start_ns, period.end_ns,
    CASE WHEN step.end_ns = period.end_ns THEN period.thread_id END,
    CASE WHEN step.end_ns < period.end_ns THEN last_gpu_op_id END,
    0
FROM graph.step_period AS period
INNER JOIN staging.step AS step USING (step_id)
WHERE period.end_ns > period.start_ns
UNION ALL
SELECT
    'step', step_id, run_id, trace_id, step_id, step, start_ns, end_ns, thread_id, NULL, 0
FROM staging.step
UNION ALL
SELECT
    'trace', trace_id, run_id, trace_id, NULL, NULL, first_ns, end_ns, thread_id,
    gpu_op_id, 0
FROM last_of_trace
UNION ALL
SELECT
    'run', step_id, run_id, trace_id, step_id, step, first_ns, end_ns + shift_ns,
    thread_id, NULL, shift_ns
FROM together
WHERE ordinal = 1 AND rank_count > 1;
