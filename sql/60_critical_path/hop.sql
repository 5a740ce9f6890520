-- Critical paths as measured, walked from their ends backwards: along a host thread to
-- the moment at which it last had to wait, from there to what it waited for, and on to
-- what that had started after. The path of a run goes from a collective to the rank that
-- arrived last.
-- One row per hop of a path, from its end backwards.
-- Key: scope, path_id, hop.
CREATE TABLE critical_path.hop (
    -- `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- Place on the path, from 1 at its end.
    hop,
    -- The trace that the hop lies in.
    trace_id,
    -- Host thread that the hop runs along; NULL on a device.
    thread_id,
    -- GPU work that the hop passes; NULL on the host.
    kernel_id,
    -- [ns] End of the hop, by the clock of its trace.
    until_ns,
    -- What the hop before waited for: `return`, `join`, `fork`, `launch`, `stream`,
    -- `stream_wait`, `arrival` (of another rank); `end` at the path's end.
    reason,
    -- [ns] What to add to times of the trace for times by the path's clock.
    shift_ns
) AS
WITH RECURSIVE
latest AS (
    SELECT trace_id, thread_id, resume_ns, max(moment) AS moment
    FROM graph.host_cause
    GROUP BY trace_id, thread_id, resume_ns
),

-- The rank that a collective waited for, if it was another.
arrival AS (
    SELECT
        collective.kernel_id,
        last_kernel_id,
        last.trace_id AS last_trace_id,
        last.start_ns AS arrival_ns,
        clock.shift_ns AS last_shift_ns
    FROM graph.collective AS collective
    INNER JOIN staging.kernel AS last ON last_kernel_id = last.kernel_id
    INNER JOIN graph.clock AS clock ON last.trace_id = clock.trace_id
    WHERE collective.kernel_id <> last_kernel_id AND waiting_ns > 0
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
        CASE WHEN cause = 'launch' THEN latest.moment END AS cause_moment,
        CASE
            WHEN cause = 'launch' THEN least(gpu_cause.cause_ns, work.start_ns)
            ELSE work.start_ns
        END AS out_ns,
        last_kernel_id,
        last_trace_id,
        arrival_ns,
        last_shift_ns
    FROM graph.stream_position AS work
    INNER JOIN graph.gpu_cause USING (kernel_id)
    LEFT JOIN arrival USING (kernel_id)
    ASOF LEFT JOIN latest
        ON
            work.launch_thread_id = latest.thread_id
            AND work.launch_start_ns >= latest.resume_ns
    WHERE work.trace_id IN (SELECT trace_id FROM staging.computing)
),

walk AS (
    SELECT
        scope,
        path_id,
        path.start_ns AS path_start_ns,
        1::BIGINT AS hop,
        path.trace_id,
        path.thread_id,
        latest.moment,
        path.kernel_id,
        path.end_ns - shift_ns AS until_ns,
        'end' AS reason,
        shift_ns
    FROM critical_path.path
    ASOF LEFT JOIN latest
        ON
            path.thread_id = latest.thread_id
            AND path.end_ns - shift_ns >= latest.resume_ns
    WHERE path.trace_id IN (SELECT trace_id FROM staging.computing)
    UNION ALL
    SELECT
        walk.scope,
        walk.path_id,
        walk.path_start_ns,
        walk.hop + 1,
        CASE WHEN is_arrival THEN last_trace_id ELSE walk.trace_id END,
        CASE
            WHEN NOT is_arrival THEN coalesce(host_cause.cause_thread_id, gpu.cause_thread_id)
        END,
        CASE
            WHEN NOT is_arrival THEN coalesce(host_cause.cause_moment, gpu.cause_moment)
        END,
        CASE
            WHEN is_arrival THEN last_kernel_id
            ELSE coalesce(host_cause.cause_kernel_id, gpu.cause_kernel_id)
        END,
        CASE
            WHEN is_arrival THEN least(walk.until_ns + walk.shift_ns - last_shift_ns, arrival_ns)
            ELSE least(walk.until_ns, host_cause.resume_ns, gpu.out_ns)
        END AS next_until_ns,
        CASE WHEN is_arrival THEN 'arrival' ELSE coalesce(host_cause.cause, gpu.cause) END
        AS next_reason,
        CASE WHEN is_arrival THEN last_shift_ns ELSE walk.shift_ns END AS next_shift_ns
    FROM walk
    LEFT JOIN graph.host_cause
        ON
            walk.kernel_id IS NULL
            AND walk.trace_id = host_cause.trace_id
            AND walk.moment = host_cause.moment
    LEFT JOIN gpu ON walk.kernel_id = gpu.kernel_id
    CROSS JOIN LATERAL (
        SELECT
            walk.scope = 'run' AND last_kernel_id IS NOT NULL AND walk.reason <> 'arrival'
            AS is_arrival
    )
    WHERE
        coalesce(next_reason, 'none') <> 'none'
        AND next_until_ns + next_shift_ns > walk.path_start_ns
)

SELECT
    scope, path_id, hop, trace_id, thread_id, kernel_id, until_ns, reason, shift_ns
FROM walk;
