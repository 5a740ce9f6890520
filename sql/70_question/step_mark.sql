-- Which ranges could mark the steps of a trace without steps? The one that covers most of
-- the trace comes first; `tracedb ingest` accepts it, also for traces that are already in
-- the database. If no range could, these are Python functions; if none of these could, ops.
-- One row per trace and candidate mark, for traces without steps; one row if nothing could
-- mark them.
-- Key: trace_id, mark.
CREATE VIEW question.step_mark (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Its file.
    path,
    -- Option of `tracedb ingest` for the mark: `--step-mark` if the ranges cover steps,
    -- `--step-from` if they start them; NULL if nothing could mark steps.
    option,
    -- Regular expression for the names.
    mark,
    -- Number of ranges or ops, or of calls of the function.
    occurrences,
    -- [ns] Total time of all of them.
    total_ns,
    -- User ranges of the trace, whether or not they could mark steps.
    range_count,
    -- What could mark steps: `range`, `function` or `op`.
    kind
) AS
WITH
ranges AS (
    SELECT trace_id, count(*) AS range_count FROM staging.annotation GROUP BY trace_id
),

candidate AS (
    SELECT *, list_position(['range', 'function', 'op'], kind) AS place
    FROM staging.step_mark
    WHERE suits IS NOT NULL
    QUALIFY place = min(place) OVER (PARTITION BY trace_id)
)

SELECT
    trace.run_id,
    trace.trace_id,
    rank,
    path,
    '--step-' || suits AS option,
    mark,
    occurrences,
    total_ns,
    coalesce(range_count, 0),
    kind
FROM staging.trace AS trace
LEFT JOIN ranges USING (trace_id)
LEFT JOIN candidate ON trace.trace_id = candidate.trace_id
WHERE
    format = 'kineto'
    AND trace.trace_id NOT IN (SELECT trace_id FROM staging.step)
    AND trace.trace_id NOT IN (SELECT trace_id FROM staging.operation)
    AND trace.trace_id NOT IN (SELECT trace_id FROM staging.logged_collective)
ORDER BY
    trace.run_id,
    trace.trace_id,
    option DESC,
    CASE WHEN suits = 'from' THEN occurrences END,
    total_ns DESC,
    mark;
