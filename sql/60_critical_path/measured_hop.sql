-- Measured critical paths, followed from their ends backwards: along a host thread to where
-- it last had to wait, from there to what it waited for, and on to what that had started
-- after. The path of a run goes from a collective to the rank that arrived last.
-- One row per hop of a path, from its end backwards.
-- Key: scope, path_id, hop.
CREATE TABLE critical_path.measured_hop (
    -- `period`, `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.measured_path`.
    path_id,
    -- Position on the path, from 1 at its end.
    hop,
    -- The trace of the hop.
    trace_id,
    -- The host thread along which the hop runs; NULL on a device.
    thread_id,
    -- GPU work that the hop passes; NULL on the host.
    gpu_op_id,
    -- [ns] End of the hop, by the clock of its trace.
    until_ns,
    -- What the previous hop waited for: `return`, `join`, `fork`, `launch`, `stream`,
    -- `stream_wait`, `occupancy`, `arrival` (of another rank); `end` at the path's end.
    reason,
    -- [ns] Offset to add to times of the trace to get times of the path's clock.
    shift_ns
) AS
WITH RECURSIVE
-- A round of a recursion costs the same for one row or thousands, and a path may have a hop
-- for each kernel of a trace. So walks first go from every 64th hop to the next, and then
-- from all of these at once. What lies 1, 2, 4, ... 64 hops on from a node, and the
-- earliest time on the way; paths of runs, which change traces, do not use this.
leap AS (
    SELECT
        1 AS hops, trace_id, node, cause_node, thread_id, gpu_op_id, until_ns, reason
    FROM critical_path.cause
    WHERE NOT is_run AND trace_id IN (SELECT trace_id FROM staging.computing)
    UNION ALL
    SELECT
        2 * near.hops,
        near.trace_id,
        near.node,
        further.cause_node,
        further.thread_id,
        further.gpu_op_id,
        least(near.until_ns, further.until_ns),
        further.reason
    FROM leap AS near
    INNER JOIN leap AS further
        ON near.trace_id = further.trace_id AND near.cause_node = further.node
    WHERE near.hops < 64
),

stride AS MATERIALIZED (
    SELECT * FROM leap WHERE hops = 64
),

-- The end of each path, and every 64th hop from there.
milestone AS (
    SELECT
        scope,
        path_id,
        path.start_ns AS path_start_ns,
        1::BIGINT AS hop,
        path.trace_id,
        coalesce(path.gpu_op_id, -latest.resume_id) AS node,
        path.thread_id,
        path.gpu_op_id,
        path.end_ns - shift_ns AS until_ns,
        'end' AS reason,
        shift_ns
    FROM critical_path.measured_path AS path
    ASOF LEFT JOIN graph.last_resume AS latest
        ON
            path.thread_id = latest.thread_id
            AND path.end_ns - shift_ns >= latest.resume_ns
    WHERE path.trace_id IN (SELECT trace_id FROM staging.computing)
    UNION ALL
    SELECT
        scope,
        path_id,
        path_start_ns,
        milestone.hop + 64,
        milestone.trace_id,
        stride.cause_node,
        stride.thread_id,
        stride.gpu_op_id,
        least(milestone.until_ns, stride.until_ns) AS next_until_ns,
        stride.reason,
        shift_ns
    FROM milestone
    INNER JOIN stride
        ON milestone.trace_id = stride.trace_id AND milestone.node = stride.node
    WHERE scope <> 'run' AND next_until_ns > path_start_ns
),

-- The current node of a walk, and whether it may change to another rank: with collectives on
-- GPUs not twice in a row, and only to an earlier time, so that no walk cycles.
walk AS (
    SELECT *, scope = 'run' AS is_run
    FROM milestone
    UNION ALL
    SELECT
        walk.scope,
        walk.path_id,
        walk.path_start_ns,
        walk.hop + 1,
        cause.cause_trace_id,
        cause.cause_node,
        cause.thread_id,
        cause.gpu_op_id,
        least(walk.until_ns + walk.shift_ns - cause_shift_ns, cause.until_ns)
        AS next_until_ns,
        cause.reason,
        cause_shift_ns,
        scope = 'run' AND (cause.reason <> 'arrival' OR cause.thread_id IS NOT NULL)
    FROM walk
    INNER JOIN critical_path.cause
        ON walk.trace_id = cause.trace_id AND walk.node = cause.node
    CROSS JOIN LATERAL (
        SELECT CASE WHEN scope = 'run' THEN cause.shift_ns ELSE 0 END AS cause_shift_ns
    )
    WHERE
        (scope = 'run' OR walk.hop % 64 <> 0)
        AND next_until_ns + cause_shift_ns > walk.path_start_ns
        AND cause.is_run = (
            walk.is_run
            AND coalesce(cause.arrival_ns < walk.until_ns + walk.shift_ns, false)
        )
)

SELECT
    scope, path_id, hop, trace_id, thread_id, gpu_op_id, until_ns, reason, shift_ns
FROM walk;
