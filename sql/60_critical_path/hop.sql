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
latest AS (
    SELECT trace_id, thread_id, resume_ns, max(moment) AS moment
    FROM graph.host_cause
    GROUP BY trace_id, thread_id, resume_ns
),

-- Where a walk comes out of GPU work: the launch's begin, and what its thread went on
-- from before that.
gpu AS MATERIALIZED (
    SELECT
        work.kernel_id,
        work.start_ns,
        gpu_cause.cause,
        gpu_cause.cause_kernel_id,
        CASE WHEN cause = 'launch' THEN work.launch_thread_id END AS cause_thread_id,
        least(gpu_cause.cause_ns, work.start_ns) AS launch_ns,
        CASE WHEN cause = 'launch' THEN latest.moment END AS cause_moment
    FROM graph.stream_position AS work
    INNER JOIN graph.gpu_cause USING (kernel_id)
    ASOF LEFT JOIN latest
        ON
            work.launch_thread_id = latest.thread_id
            AND work.launch_start_ns >= latest.resume_ns
    WHERE work.trace_id IN (SELECT trace_id FROM staging.computing)
),

walk AS (
    SELECT
        step.trace_id,
        step_id,
        step.start_ns AS step_start_ns,
        1::BIGINT AS hop,
        step.thread_id,
        latest.moment,
        NULL::BIGINT AS kernel_id,
        step.end_ns AS until_ns,
        'end' AS reason
    FROM staging.step
    ASOF LEFT JOIN latest
        ON step.thread_id = latest.thread_id AND step.end_ns >= latest.resume_ns
    WHERE step.trace_id IN (SELECT trace_id FROM staging.computing)
    UNION ALL
    SELECT
        walk.trace_id,
        walk.step_id,
        walk.step_start_ns,
        walk.hop + 1,
        coalesce(host_cause.cause_thread_id, gpu.cause_thread_id),
        coalesce(host_cause.cause_moment, gpu.cause_moment),
        coalesce(host_cause.cause_kernel_id, gpu.cause_kernel_id),
        least(
            walk.until_ns,
            host_cause.resume_ns,
            CASE WHEN gpu.cause = 'launch' THEN gpu.launch_ns ELSE gpu.start_ns END
        ) AS next_until_ns,
        coalesce(host_cause.cause, gpu.cause)
    FROM walk
    LEFT JOIN graph.host_cause
        ON
            walk.kernel_id IS NULL
            AND walk.trace_id = host_cause.trace_id
            AND walk.moment = host_cause.moment
    LEFT JOIN gpu ON walk.kernel_id = gpu.kernel_id
    WHERE
        coalesce(host_cause.cause, gpu.cause, 'none') <> 'none'
        AND next_until_ns > walk.step_start_ns
)

SELECT trace_id, step_id, hop, thread_id, kernel_id, until_ns, reason
FROM walk;
