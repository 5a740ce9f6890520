-- What would bound each step, as predicted, and each step of a run? Beside what was
-- measured.
-- One row per scenario, rung, critical path, trace that it passes, and kind of time there.
-- Key: scenario, rung, scope, path_id, trace_id, kind.
CREATE VIEW question.predicted_path (
    -- The scenario; `baseline` edits nothing.
    scenario,
    -- The rung, as in `prediction.rung`.
    rung,
    -- `period`, `step` or `run`.
    scope,
    -- The path, as in `critical_path.predicted_path`.
    path_id,
    -- The trace that the time lies in.
    trace_id,
    -- Its rank.
    rank,
    -- The step at whose end the path ends.
    step_id,
    -- Number of the step.
    step,
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- [ns] Its time on the path as measured.
    measured_ns,
    -- [ns] Its time on the path as predicted.
    predicted_ns,
    -- [1] Its share of the predicted path.
    predicted_share
) AS
WITH
measured AS (
    SELECT scope, path_id, trace_id, kind, sum(end_ns - start_ns)::BIGINT AS time_ns
    FROM critical_path.interval
    GROUP BY ALL
),

predicted AS (
    SELECT
        variant_id, scope, path_id, trace_id, kind,
        sum(end_ns - start_ns)::BIGINT AS time_ns
    FROM critical_path.predicted_interval
    GROUP BY ALL
),

-- Kinds that occur in either.
known AS (
    SELECT variant_id, scope, path_id, measured.trace_id, kind
    FROM critical_path.predicted_path
    INNER JOIN measured USING (scope, path_id)
    UNION
    SELECT variant_id, scope, path_id, trace_id, kind
    FROM predicted
)

SELECT
    scenario,
    rung,
    known.scope,
    known.path_id,
    trace.trace_id,
    rank,
    known.path_id AS step_id,
    path.step,
    known.kind,
    coalesce(measured.time_ns, 0) AS measured_ns,
    coalesce(predicted.time_ns, 0) AS predicted_ns,
    predicted_ns / nullif(path.end_ns - path.start_ns, 0)
FROM known
INNER JOIN critical_path.predicted_path AS path USING (variant_id, scope, path_id)
INNER JOIN prediction.variant USING (variant_id)
INNER JOIN staging.trace AS trace ON known.trace_id = trace.trace_id
LEFT JOIN measured
    ON
        known.scope = measured.scope
        AND known.path_id = measured.path_id
        AND known.trace_id = measured.trace_id
        AND known.kind = measured.kind
LEFT JOIN predicted
    ON
        known.variant_id = predicted.variant_id
        AND known.scope = predicted.scope
        AND known.path_id = predicted.path_id
        AND known.trace_id = predicted.trace_id
        AND known.kind = predicted.kind
ORDER BY variant_id, known.scope, known.path_id, predicted_ns DESC, rank, known.kind;
