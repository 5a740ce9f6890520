-- How long the devices of a trace are busy: for any time from `start_ns` to the next row's,
-- `busy_ns` minus the part between that time and `busy_until_ns`.
-- One row per trace and time at which GPU work starts.
-- Key: trace_id, start_ns.
CREATE VIEW critical_path.busy_time (
    -- The trace.
    trace_id,
    -- [ns] Time at which work starts.
    start_ns,
    -- [ns] Time until `busy_until_ns` in which any device ran work.
    busy_ns,
    -- [ns] When all work that has started by then has ended.
    busy_until_ns
) AS
WITH
covered AS (
    SELECT
        trace_id,
        start_ns,
        end_ns,
        staging.uncovered_ns(start_ns, end_ns, trace_id, NULL, NULL) AS uncovered_ns
    FROM staging.gpu_op
    WHERE kind <> 'other'
),

begun AS (
    SELECT trace_id, start_ns, sum(uncovered_ns) AS uncovered_ns, max(end_ns) AS end_ns
    FROM covered
    GROUP BY trace_id, start_ns
)

SELECT
    trace_id,
    start_ns,
    (sum(uncovered_ns) OVER in_order)::BIGINT,
    max(end_ns) OVER in_order
FROM begun
WINDOW in_order AS (PARTITION BY trace_id ORDER BY start_ns);
