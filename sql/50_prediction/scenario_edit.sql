-- The edits of scenarios: what is changed in what the baseline predicts with. Those that
-- are computed now are in the variable `edits`; a database at rest has none.
-- One row per edit.
-- Key: scenario, position.
CREATE VIEW prediction.scenario_edit (
    -- The scenario.
    scenario,
    -- Ordinal of the scenario among all, from 1.
    scenario_position,
    -- Ordinal of the edit in its scenario, from 1.
    position,
    -- What it changes: `host` (time of spans on host threads), `gpu` (time of GPU work),
    -- `profiler` (what recording events costs the host) or `wait` (removes waits).
    target,
    -- Which of these: of `host` the overhead type, of `gpu` the kind of work, of `wait` the
    -- kind as in `prediction.removed_wait`; NULL: all.
    type,
    -- Regular expression that the whole name of the op, the call or the GPU work matches;
    -- NULL: all.
    name,
    -- What is done to it: `scale` (a time is multiplied and added to), `set` (it is what is
    -- said), `remove` (GPU work, or host time, is not there) or `unsync` (waits are not).
    action,
    -- What the time is multiplied by.
    factor,
    -- [ns] What is then added to it.
    add_ns,
    -- [ns] What it is set to; NULL by other actions.
    set_ns
) AS
SELECT
    edit.scenario,
    dense_rank() OVER (ORDER BY first_ordinal),
    row_number() OVER (PARTITION BY edit.scenario ORDER BY ordinal),
    edit.target,
    edit.type,
    edit.name,
    coalesce(edit.action, CASE edit.target WHEN 'wait' THEN 'unsync' ELSE 'scale' END),
    coalesce(edit.factor, 1),
    coalesce(edit.add_ns, 0),
    edit.set_ns
FROM (
    SELECT
        edit,
        ordinal,
        min(ordinal) OVER (PARTITION BY edit.scenario) AS first_ordinal
    FROM (
        SELECT
            unnest(edits) AS edit,
            generate_subscripts(edits, 1) AS ordinal
        FROM (
            SELECT
                getvariable('edits')::STRUCT(
                    scenario VARCHAR, target VARCHAR, type VARCHAR, name VARCHAR,
                    action VARCHAR, factor DOUBLE, add_ns BIGINT, set_ns BIGINT
                )[] AS edits
            -- What looks for edits is not even planned while there are none.
            WHERE getvariable('edits') IS NOT NULL
        )
    )
);
