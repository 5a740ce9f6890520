-- What steps of the run that an edit takes times from have in another number: then times
-- come from others than the recorded ones, since the order in the step identifies them
-- (`prediction.set_time`). Of each edit, the name with the largest difference.
-- Without edits it is empty.
-- One row per edit of which the runs differ.
-- Key: scenario, edit.
CREATE VIEW prediction.unlike_step (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The run that times are taken from.
    from_run,
    -- Name of the op or call.
    name,
    -- Median number of such spans, or such GPU work, in a step of the edited run,
    here_count,
    -- and of that one.
    there_count
) AS
WITH
edit AS (
    SELECT scenario, position AS edit, from_run
    FROM prediction.scenario_edit
    WHERE from_run IS NOT NULL
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

number AS (
    SELECT run_id, type, role, name, median(span_count)::BIGINT AS typical_count
    FROM (
        SELECT any_value(run_id) AS run_id, step_id, type, role, name, count(*) AS span_count
        FROM sample
        GROUP BY trace_id, step_id, type, role, name
    )
    GROUP BY run_id, type, role, name
),

wanted AS (
    SELECT DISTINCT edit.*, run_id, sample.type, role, sample.name
    FROM (
        SELECT scenario, edit, thread_id AS target_id, position FROM prediction.chosen_span
        UNION ALL
        SELECT scenario, edit, gpu_op_id, 0 FROM prediction.chosen_work
    )
    INNER JOIN edit USING (scenario, edit)
    INNER JOIN sample USING (target_id, position)
    WHERE run_id <> from_run
)

SELECT
    scenario,
    edit,
    wanted.from_run,
    wanted.name,
    here.typical_count,
    coalesce(there.typical_count, 0)
FROM wanted
INNER JOIN number AS here USING (run_id, type, role, name)
LEFT JOIN number AS there
    ON
        from_run = there.run_id
        AND wanted.type = there.type
        AND wanted.role = there.role
        AND wanted.name = there.name
WHERE here.typical_count <> coalesce(there.typical_count, 0)
QUALIFY row_number() OVER (
    PARTITION BY scenario, edit
    ORDER BY abs(here.typical_count - coalesce(there.typical_count, 0)) DESC, wanted.name
) = 1;
