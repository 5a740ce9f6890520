-- Steps of which more than 5 % is delay that nothing in the trace explains, as where GPU
-- work was not recorded that the host, or a stream, waited for. Predictions keep such delay
-- as measured, since most of it would be there again; where it is less they leave it out.
-- One row per such step.
-- Key: step_id.
CREATE TABLE prediction.unexplained_step (
    -- Step.
    step_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- [ns] Begin of its mark.
    start_ns,
    -- [ns] End of its mark.
    end_ns,
    -- [ns] Delay without a cause while it lasted, on its thread.
    host_delay_ns,
    -- [ns] Delay without a cause while it lasted, of GPU work.
    gpu_delay_ns
) AS
WITH
delay AS (
    SELECT step.step_id, unexplained_ns AS host_delay_ns, 0 AS gpu_delay_ns
    FROM staging.step AS step
    INNER JOIN overhead.timeline AS piece
        ON
            step.thread_id = piece.thread_id
            AND step.start_ns <= piece.start_ns
            AND step.end_ns > piece.start_ns
    INNER JOIN prediction.host_own AS own
        ON piece.thread_id = own.thread_id AND piece.position = own.position
    WHERE unexplained_ns > 0
    UNION ALL
    SELECT
        step.step_id,
        0,
        least(work.start_ns, step.end_ns)
        - greatest(work.start_ns - unexplained_ns, step.start_ns)
    FROM staging.step AS step
    INNER JOIN graph.stream_position AS work
        ON step.trace_id = work.trace_id AND step.start_ns < work.start_ns
    INNER JOIN prediction.gpu_delay AS delay
        ON work.kernel_id = delay.kernel_id AND step.end_ns > work.start_ns - unexplained_ns
    WHERE unexplained_ns > 0
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
