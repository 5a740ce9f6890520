-- When host and GPU finish each step, measured and simulated, on one clock, and its period,
-- as in `graph.step_period` for measurements.
-- One row per variant (0 is measured) and step that takes time.
-- Key: variant_id, step_id.
CREATE TABLE critical_path.step_period (
    -- Method and scenario, as in `prediction.variant`; 0 is measured.
    variant_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- [ns] Start of the mark, from the start of the trace (`simulation.origin`).
    host_start_ns,
    -- [ns] End of the mark, likewise.
    host_end_ns,
    -- [ns] End of the GPU work launched in the step (`staging.step_work`), likewise; NULL
    -- without any.
    gpu_end_ns,
    -- The GPU work that ends last.
    last_gpu_op_id,
    -- [ns] Start of the period, likewise.
    start_ns,
    -- [ns] End of the period, likewise.
    end_ns
) AS
WITH
-- How long after segments GPU work ends: for each segment, the latest work of a step.
latest AS (
    SELECT
        variant_id,
        step_id,
        source_trace_id,
        source_lane,
        source_segment,
        max({'weight_ns': weight_ns, 'gpu_op_id': gpu_op_id}) AS work
    FROM (
        SELECT step_id, trace_id, gpu_op_id FROM staging.step_work
        UNION ALL
        -- Inserted work belongs to the step of its neighbor.
        SELECT step_id, trace_id, inserted.gpu_op_id
        FROM prediction.inserted_work AS inserted
        INNER JOIN staging.step_work AS work USING (trace_id)
        WHERE beside_gpu_op_id = work.gpu_op_id
    ) AS work
    INNER JOIN simulation.work_end USING (trace_id, gpu_op_id)
    GROUP BY ALL
),

gpu AS (
    SELECT
        latest.variant_id,
        step_id,
        max({'end_ns': begin_ns + work.weight_ns, 'gpu_op_id': work.gpu_op_id}) AS last
    FROM latest
    INNER JOIN simulation.segment_time AS segment
        ON
            latest.variant_id = segment.variant_id
            AND source_trace_id = segment.trace_id
            AND source_lane = segment.lane
            AND source_segment = segment.segment
    GROUP BY latest.variant_id, step_id
),

-- The spans that steps start and end with.
bound AS (
    SELECT step_id, thread_id, first_position AS position, true AS is_first
    FROM simulation.step_span
    UNION ALL
    SELECT step_id, thread_id, last_position, false
    FROM simulation.step_span
),

host AS (
    SELECT
        variant_id,
        step_id,
        min(span.start_ns) FILTER (is_first) AS start_ns,
        max(span.end_ns) FILTER (NOT is_first) AS end_ns
    FROM bound
    INNER JOIN simulation.host_span_time AS span USING (thread_id, position)
    GROUP BY variant_id, step_id
    HAVING count(span.end_ns) = 2
),

-- Steps in measured order.
done AS (
    SELECT
        host.*,
        step.run_id,
        step.trace_id,
        step.thread_id,
        step.start_ns AS measured_start_ns,
        gpu.last.end_ns AS gpu_end_ns,
        gpu.last.gpu_op_id AS last_gpu_op_id,
        max(greatest(host.end_ns, gpu.last.end_ns)) OVER (
            PARTITION BY host.variant_id, step.thread_id
            ORDER BY step.start_ns, host.step_id
            ROWS UNBOUNDED PRECEDING
        ) AS done_ns
    FROM host
    INNER JOIN staging.step AS step ON host.step_id = step.step_id
    LEFT JOIN gpu ON host.variant_id = gpu.variant_id AND host.step_id = gpu.step_id
)

SELECT
    variant_id,
    period.run_id,
    period.trace_id,
    period.step_id,
    step.start_ns - origin_ns,
    step.end_ns - origin_ns,
    step.gpu_end_ns - origin_ns,
    last_gpu_op_id,
    period.start_ns - origin_ns,
    period.end_ns - origin_ns
FROM graph.step_period AS period
INNER JOIN staging.step AS step USING (step_id)
INNER JOIN simulation.origin AS origin ON period.trace_id = origin.trace_id
INNER JOIN prediction.variant ON variant_id = 0
UNION ALL
SELECT
    variant_id,
    run_id,
    trace_id,
    step_id,
    start_ns,
    end_ns,
    gpu_end_ns,
    last_gpu_op_id,
    coalesce(
        lag(done_ns) OVER (
            PARTITION BY variant_id, thread_id ORDER BY measured_start_ns, step_id
        ),
        start_ns
    ),
    done_ns
FROM done;
