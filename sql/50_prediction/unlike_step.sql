-- What the steps that an edit takes times from have in another number than the edited ones:
-- then times may come from others than the recorded ones, since the order in the step
-- identifies them (`prediction.set_time`). Steps of another run, of other ranks, or other
-- steps of the trace; what some steps of a trace lack is not compared. Of each edit, the
-- name with the largest difference.
-- Without edits it is empty.
-- One row per edit of which the steps differ.
-- Key: scenario, edit.
CREATE VIEW prediction.unlike_step (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The run that times are taken from; NULL if it is the edited one.
    from_run,
    -- Whose steps differ: `run`, `rank` or `step`.
    of_what,
    -- Name of the op or call.
    name,
    -- Number of such spans, or such GPU work, in a step: the median of the edited run, or
    -- the smallest,
    here_count,
    -- and the median of the other run, or the largest.
    there_count
) AS
WITH
edit AS (
    SELECT
        scenario, position AS edit, from_run,
        CASE
            WHEN from_run IS NOT NULL THEN 'run'
            WHEN set_to = 'step_median' THEN 'step'
            ELSE 'rank'
        END AS of_what
    FROM prediction.scenario_edit
    WHERE from_run IS NOT NULL OR set_to IS NOT NULL
),

sample AS MATERIALIZED (
    SELECT thread_id AS target_id, position, run_id, trace_id, step_id, type, role, name
    FROM overhead.sample
    WHERE EXISTS (FROM edit)
    UNION ALL
    SELECT gpu_op_id, 0, run_id, trace_id, step_id, kind, role, name
    FROM prediction.work_sample
    WHERE EXISTS (FROM edit)
),

counted AS (
    SELECT
        any_value(sample.run_id) AS run_id, sample.trace_id, step, type, role, sample.name,
        count(*) AS span_count
    FROM sample
    INNER JOIN staging.step AS step USING (step_id)
    GROUP BY sample.trace_id, step_id, step, type, role, sample.name
),

number AS (
    SELECT run_id, type, role, name, median(span_count)::BIGINT AS typical_count
    FROM counted
    GROUP BY run_id, type, role, name
),

-- Ranks have a step in common, by its number.
rank_count AS (
    SELECT run_id, step, count(DISTINCT trace_id) AS traces
    FROM counted
    GROUP BY run_id, step
),

range AS (
    SELECT
        'rank' AS of_what, run_id, NULL AS trace_id, type, role, name,
        min(CASE WHEN here < traces THEN 0 ELSE low END) AS low,
        max(high) AS high
    FROM (
        SELECT
            run_id, step, type, role, name, count(DISTINCT trace_id) AS here,
            min(span_count) AS low, max(span_count) AS high
        FROM counted
        GROUP BY run_id, step, type, role, name
    )
    INNER JOIN rank_count USING (run_id, step)
    WHERE low < high OR here < traces
    GROUP BY run_id, type, role, name
    UNION ALL
    SELECT
        'step', any_value(run_id), trace_id, type, role, name,
        min(span_count), max(span_count)
    FROM counted
    GROUP BY trace_id, type, role, name
),

wanted AS (
    SELECT DISTINCT edit.*, run_id, trace_id, sample.type, role, sample.name
    FROM (
        SELECT scenario, edit, thread_id AS target_id, position FROM prediction.chosen_span
        UNION ALL
        SELECT scenario, edit, gpu_op_id, 0 FROM prediction.chosen_work
    )
    INNER JOIN edit USING (scenario, edit)
    INNER JOIN sample USING (target_id, position)
),

found AS (
    SELECT
        scenario, edit, from_run, of_what, wanted.name, here.typical_count AS low,
        coalesce(there.typical_count, 0) AS high
    FROM wanted
    INNER JOIN number AS here USING (run_id, type, role, name)
    LEFT JOIN number AS there
        ON
            from_run = there.run_id
            AND wanted.type = there.type
            AND wanted.role = there.role
            AND wanted.name = there.name
    WHERE of_what = 'run' AND run_id <> from_run
    UNION ALL
    SELECT scenario, edit, from_run, of_what, name, low, high
    FROM wanted
    INNER JOIN range USING (of_what, run_id, type, role, name)
    WHERE coalesce(wanted.trace_id = range.trace_id, true)
)

SELECT DISTINCT ON (scenario, edit) scenario, edit, from_run, of_what, name, low, high
FROM found
WHERE low <> high
ORDER BY scenario, edit, abs(low - high) DESC, name;
