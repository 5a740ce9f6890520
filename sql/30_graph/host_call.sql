-- Launches and waits of host threads without overlap: a nested call (a driver call below a
-- runtime call) belongs to the outer one. A blocking copy is split into the time that a
-- launch usually takes and the wait after it; so is a launch into a full queue.
-- One row per launch or wait that adds time to its thread.
-- Key: call_id.
CREATE TABLE graph.host_call (
    -- The call.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- `launch` or `wait`.
    kind,
    -- What it launches or waits for.
    target,
    -- What it waits for: `stream`, `device`, `event`, `copy` or `queue`; NULL if nothing.
    awaits,
    -- [ns] Start, or end of the call that it started in.
    start_ns,
    -- [ns] Start of the part that waits for a device; the end if no part does.
    wait_start_ns,
    -- [ns] End.
    end_ns
) AS
WITH
ordered AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY thread_id ORDER BY start_ns, end_ns DESC, call_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS previous_end_ns
    FROM staging.call
    WHERE kind IN ('launch', 'wait')
),

typical_launch AS (
    SELECT trace_id, quantile_disc(end_ns - start_ns, 0.5) AS launch_ns
    FROM staging.call
    WHERE
        kind = 'launch'
        AND call_id NOT IN (SELECT call_id FROM graph.host_wait)
    GROUP BY trace_id
)

SELECT
    ordered.call_id,
    ordered.run_id,
    ordered.trace_id,
    thread_id,
    kind,
    ordered.target,
    CASE WHEN kind = 'wait' THEN ordered.target ELSE blocked.target END,
    greatest(ordered.start_ns, previous_end_ns) AS start_ns,
    CASE
        WHEN kind = 'wait' THEN greatest(ordered.start_ns, previous_end_ns)
        WHEN blocked.call_id IS NOT NULL
            THEN greatest(
                least(ordered.start_ns + coalesce(launch_ns, 0), ordered.end_ns),
                ordered.start_ns,
                previous_end_ns
            )
        ELSE ordered.end_ns
    END AS wait_start_ns,
    ordered.end_ns
FROM ordered
LEFT JOIN typical_launch USING (trace_id)
LEFT JOIN graph.host_wait AS blocked
    ON ordered.call_id = blocked.call_id AND kind = 'launch'
WHERE ordered.end_ns > coalesce(previous_end_ns, ordered.start_ns - 1);
