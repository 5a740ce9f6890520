-- What bounds each step, each trace, and each step of a run? By default as measured;
-- requested methods and scenarios are added (`tracedb critical-path --method`), with all
-- kinds of time that the measured path has.
-- One row per scenario, method, critical path, trace on the path, and kind of time there.
-- Key: scenario, method, scope, path_id, trace_id, kind.
CREATE VIEW question.critical_path (
    -- The scenario; `baseline` has no edits.
    scenario,
    -- `measured`, or the method, as in `prediction.method`.
    method,
    -- `period`, `step`, `trace` or `run`.
    scope,
    -- The path, as in `critical_path.path`.
    path_id,
    -- The trace of that part of the path.
    trace_id,
    -- Its rank.
    rank,
    -- The step at whose end the path ends; NULL for a trace.
    step_id,
    -- Number of the step.
    step,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- Intervals of that kind.
    interval_count,
    -- [ns] Their time.
    time_ns,
    -- [1] Their share of the path.
    time_share,
    -- [ns] The time of that kind on the measured path.
    measured_ns
) AS
WITH
summed AS (
    SELECT
        variant_id, scope, path_id, trace_id, kind,
        count(*) AS interval_count,
        sum(end_ns - start_ns)::BIGINT AS time_ns
    FROM critical_path.interval
    GROUP BY ALL
),

-- Kinds that occur in either.
known AS (
    SELECT path.variant_id, scope, path_id, measured.trace_id, kind
    FROM critical_path.path AS path
    INNER JOIN (SELECT * FROM summed WHERE variant_id = 0) AS measured
        USING (scope, path_id)
    UNION
    SELECT variant_id, scope, path_id, trace_id, kind
    FROM summed
)

SELECT
    scenario,
    method,
    known.scope,
    known.path_id,
    known.trace_id,
    rank,
    path.step_id,
    path.step,
    known.kind,
    coalesce(own.interval_count, 0),
    coalesce(own.time_ns, 0) AS time_ns,
    coalesce(own.time_ns, 0) / nullif(path.end_ns - path.start_ns, 0),
    coalesce(measured.time_ns, 0)
FROM known
INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
INNER JOIN prediction.variant AS variant ON known.variant_id = variant.variant_id
INNER JOIN staging.trace AS trace ON known.trace_id = trace.trace_id
LEFT JOIN summed AS own
    ON
        known.variant_id = own.variant_id
        AND known.scope = own.scope
        AND known.path_id = own.path_id
        AND known.trace_id = own.trace_id
        AND known.kind = own.kind
LEFT JOIN summed AS measured
    ON
        measured.variant_id = 0
        AND known.scope = measured.scope
        AND known.path_id = measured.path_id
        AND known.trace_id = measured.trace_id
        AND known.kind = measured.kind
ORDER BY variant.variant_id, known.scope, known.path_id, time_ns DESC, known.trace_id,
    known.kind;
