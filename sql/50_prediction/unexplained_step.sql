-- Steps of which more than 5 % is delay without a cause in the trace, for example because
-- GPU work that the host, or a stream, waited for was not recorded. Predictions keep such
-- delay as measured, because most of it would recur; smaller delays are left out.
-- One row per such step.
-- Key: step_id.
CREATE TABLE prediction.unexplained_step (
    -- Step.
    step_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] Start of its mark.
    start_ns,
    -- [ns] End of its mark.
    end_ns,
    -- [ns] Delay without a cause during the mark, on its thread.
    host_delay_ns,
    -- [ns] Delay without a cause during the mark, of GPU work.
    gpu_delay_ns
) AS
WITH
-- Little time is late without a cause: it is found before steps are looked up.
late_span AS MATERIALIZED (
    SELECT own.thread_id, span.start_ns, unexplained_ns
    FROM prediction.host_own AS own
    INNER JOIN overhead.timeline AS span
        ON own.thread_id = span.thread_id AND own.position = span.position
    WHERE unexplained_ns > 0
),

late_work AS MATERIALIZED (
    SELECT work.trace_id, work.start_ns - unexplained_ns AS due_ns, work.start_ns
    FROM prediction.gpu_delay AS delay
    INNER JOIN graph.stream_position AS work ON delay.gpu_op_id = work.gpu_op_id
    WHERE unexplained_ns > 0
),

delay AS (
    SELECT step.step_id, unexplained_ns AS host_delay_ns, 0 AS gpu_delay_ns
    FROM late_span AS span
    INNER JOIN staging.step AS step
        ON
            span.thread_id = step.thread_id
            AND span.start_ns >= step.start_ns
            AND span.start_ns < step.end_ns
    UNION ALL
    SELECT
        step.step_id,
        0,
        least(work.start_ns, step.end_ns) - greatest(due_ns, step.start_ns)
    FROM late_work AS work
    INNER JOIN staging.step AS step
        ON
            work.trace_id = step.trace_id
            AND work.start_ns > step.start_ns
            AND due_ns < step.end_ns
)

SELECT
    step_id,
    run_id,
    trace_id,
    start_ns,
    end_ns,
    sum(host_delay_ns)::BIGINT AS host_delay_ns,
    sum(gpu_delay_ns)::BIGINT AS gpu_delay_ns
FROM delay
INNER JOIN staging.step USING (step_id)
GROUP BY ALL
HAVING sum(delay.host_delay_ns + delay.gpu_delay_ns) > 0.05 * (end_ns - start_ns);
