-- When each launch call hands its work to the device, from the start of the call. Real
-- devices start work on an idle stream a constant time after the end of its call: a call
-- that takes longer (a module is loaded, memory is staged) delays its work. Work that
-- starts clearly earlier was submitted as long before that as others are before theirs; if
-- it had to wait for its stream, as early as possible. A trace in which work clearly
-- follows the start of its call more closely than the end is read that way, if at least 20
-- launches show it; in it, a call delays its work only by its time beyond that of typical
-- calls (`graph.delay_cap_ns`).
-- One row per launch whose work is in the trace.
-- Key: call_id.
CREATE TABLE graph.launch_submission (
    -- The launch.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- [ns] From the start of the call until its work was submitted.
    submit_ns,
    -- [1] That as a share of the call, or of its part before it blocks; if nested, of the
    -- outer call.
    submit_share
) AS
WITH
-- The first work of each launch, from the start and from the end of its call, which for a
-- call that blocks is where it starts to wait, and for a nested one that of the inner call.
call AS (
    SELECT
        call_id,
        work.run_id,
        work.trace_id,
        work.kind,
        CASE
            WHEN nested.call_id IS NULL THEN call.wait_start_ns
            ELSE least(launch_end_ns, call.wait_start_ns)
        END - launch_start_ns AS call_ns,
        coalesce(outer_end_ns - launch_start_ns, call_ns) AS whole_ns,
        work.start_ns - launch_start_ns AS started_ns,
        started_ns - call_ns AS after_ns,
        CASE WHEN work.kind = 'memcpy' THEN work.end_ns - work.start_ns ELSE 0 END AS copy_ns,
        previous_end_ns - launch_start_ns AS freed_ns,
        coalesce(freed_ns <= 0, true) AS is_idle
    FROM graph.stream_position AS work
    LEFT JOIN graph.host_call AS call USING (call_id)
    LEFT JOIN graph.nested_launch AS nested USING (call_id)
    WHERE call.kind = 'launch' OR nested.call_id IS NOT NULL
    QUALIFY row_number() OVER (
        PARTITION BY call_id ORDER BY work.start_ns, work.gpu_op_id
    ) = 1
),

-- The latency of launches into idle streams after their calls, copies excepted; negative if
-- the device's clock is behind the host's, which 20 launches can show. Work that starts
-- more than the usual spread before that did not wait for the end of its call.
latency AS (
    SELECT
        trace_id,
        count(*) >= 20 AS is_known,
        CASE
            WHEN is_known THEN quantile_disc(after_ns, 0.5)
            ELSE coalesce(quantile_disc(after_ns, 0.5) FILTER (after_ns >= 0), 0)
        END AS latency_ns,
        CASE
            WHEN is_known
                THEN least(4 * latency_ns - 3 * quantile_disc(after_ns, 0.75), 0)
            ELSE 0
        END AS earliest_ns
    FROM call
    WHERE is_idle AND copy_ns = 0
    GROUP BY trace_id
),

-- Whether launches follow the starts of their calls: the quartiles are closer.
spread AS (
    SELECT
        call.trace_id,
        2 * (quantile_disc(started_ns, 0.75) - quantile_disc(started_ns, 0.25))
        < quantile_disc(after_ns, 0.75) - quantile_disc(after_ns, 0.25) AS follows_start
    FROM call
    INNER JOIN latency ON call.trace_id = latency.trace_id
    WHERE is_known AND is_idle AND copy_ns = 0 AND after_ns >= earliest_ns
    GROUP BY call.trace_id
),

typical AS (
    SELECT
        trace_id,
        kind,
        graph.delay_cap_ns(
            count(*), quantile_disc(call_ns, 0.5), quantile_disc(call_ns, 0.95)
        ) AS cap_ns
    FROM call
    GROUP BY trace_id, kind
)

SELECT
    call_id,
    run_id,
    call.trace_id,
    CASE
        WHEN follows_start THEN CASE
            WHEN after_ns >= 0 THEN greatest(call_ns - cap_ns, 0)
            ELSE greatest(call_ns - copy_ns - cap_ns, 0)
        END
        WHEN after_ns >= coalesce(earliest_ns, 0) THEN call_ns
        WHEN is_idle OR freed_ns <= started_ns - abs(coalesce(latency_ns, 0))
            THEN greatest(started_ns - coalesce(latency_ns, 0), 0)
        ELSE 0
    END AS submitted_ns,
    CASE WHEN whole_ns > 0 THEN submitted_ns / whole_ns ELSE 1 END
FROM call
INNER JOIN typical ON call.trace_id = typical.trace_id AND call.kind = typical.kind
LEFT JOIN latency ON call.trace_id = latency.trace_id
LEFT JOIN spread ON call.trace_id = spread.trace_id;
