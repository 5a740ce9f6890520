-- Launches nested in another call, as the driver's are in the runtime's: the host time is
-- that of the outer call, a launch or a wait, and the work is submitted when the inner one
-- returns. Each may be the one that the profiler links to the work.
-- One row per such launch.
-- Key: call_id.
CREATE TABLE graph.nested_launch (
    -- The call that is linked to the work.
    call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The outermost launch or wait: that call itself, or one around it.
    outer_call_id,
    -- [ns] Start of the outermost call.
    start_ns,
    -- [ns] End of the innermost call that launches.
    end_ns,
    -- [ns] End of the outermost call.
    outer_end_ns
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

-- The last call on the thread that is in no other.
outermost AS (
    SELECT
        *,
        coalesce(start_ns >= previous_end_ns, true) AS is_outermost,
        last_value(CASE WHEN is_outermost THEN call_id END IGNORE NULLS) OVER so_far
            AS outer_call_id
    FROM ordered
    WINDOW so_far AS (
        PARTITION BY thread_id ORDER BY start_ns, ordered.end_ns DESC, call_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),

-- A call with the correlation of the launch around it launches for that one.
inner_call AS (
    SELECT around.call_id, max(inside.end_ns) AS end_ns
    FROM staging.call AS around
    INNER JOIN staging.call AS inside
        ON
            around.trace_id = inside.trace_id
            AND around.correlation = inside.correlation
            AND around.thread_id = inside.thread_id
    WHERE
        around.kind = 'launch'
        AND inside.kind = 'other'
        AND inside.start_ns >= around.start_ns
        AND inside.end_ns <= around.end_ns
    GROUP BY around.call_id
)

SELECT
    own.call_id,
    own.run_id,
    own.trace_id,
    outer_call_id,
    around.start_ns,
    coalesce(inner_call.end_ns, own.end_ns),
    around.end_ns
FROM outermost AS own
INNER JOIN staging.call AS around ON outer_call_id = around.call_id
LEFT JOIN inner_call ON own.call_id = inner_call.call_id
WHERE
    own.kind = 'launch'
    AND own.end_ns <= around.end_ns
    AND (NOT is_outermost OR inner_call.call_id IS NOT NULL);
