-- The critical path of each step as measured, walked from its end backwards: along a host
-- thread to the moment at which it last had to wait, from there to what it waited for, and
-- on to what that had started after.
-- One row per hop of a step's path, from the step's end backwards.
-- Key: step_id, hop.
CREATE TABLE critical_path.hop (
    -- The trace it is from.
    trace_id,
    -- Step.
    step_id,
    -- Place on the path, from 1 at the step's end.
    hop,
    -- Host thread that the hop runs along; NULL on a device.
    thread_id,
    -- GPU work that the hop passes; NULL on the host.
    kernel_id,
    -- [ns] End of the hop.
    until_ns,
    -- What the hop before waited for: `return`, `join`, `fork`, `launch`, `stream`,
    -- `stream_wait`; `end` at the step's end.
    reason
) AS
WITH RECURSIVE
walk AS (
    SELECT
        trace_id,
        step_id,
        start_ns AS step_start_ns,
        1::BIGINT AS hop,
        thread_id,
        NULL::BIGINT AS kernel_id,
        end_ns AS until_ns,
        'end' AS reason
    FROM staging.step
    WHERE trace_id IN (SELECT trace_id FROM staging.computing)
    UNION ALL
    SELECT
        walk.trace_id,
        walk.step_id,
        walk.step_start_ns,
        walk.hop + 1,
        CASE
            WHEN walk.kernel_id IS NULL THEN host_cause.cause_thread_id
            WHEN gpu_cause.cause = 'launch' THEN work.launch_thread_id
        END,
        CASE
            WHEN walk.kernel_id IS NULL THEN host_cause.cause_kernel_id
            ELSE gpu_cause.cause_kernel_id
        END,
        CASE
            WHEN walk.kernel_id IS NULL THEN host_cause.resume_ns
            WHEN gpu_cause.cause = 'launch'
                THEN least(work.start_ns, gpu_cause.cause_ns, walk.until_ns)
            ELSE least(work.start_ns, walk.until_ns)
        END AS next_until_ns,
        CASE WHEN walk.kernel_id IS NULL THEN host_cause.cause ELSE gpu_cause.cause END
    FROM walk
    LEFT JOIN graph.host_cause
        ON
            walk.thread_id = host_cause.thread_id
            AND walk.until_ns >= host_cause.resume_ns
            AND walk.until_ns < coalesce(host_cause.next_resume_ns, walk.until_ns + 1)
    LEFT JOIN graph.gpu_cause ON walk.kernel_id = gpu_cause.kernel_id
    LEFT JOIN graph.stream_position AS work ON walk.kernel_id = work.kernel_id
    WHERE
        coalesce(host_cause.cause, gpu_cause.cause, 'none') <> 'none'
        AND next_until_ns > walk.step_start_ns
)

SELECT trace_id, step_id, hop, thread_id, kernel_id, until_ns, reason
FROM walk;
