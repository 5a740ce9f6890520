-- Step times if only some operations keep their time, and all others have the typical one:
-- the scenarios of `prediction.straggler_scenario`, simulated by `tracedb.stragglers`.
-- One row per run, scenario and step.
-- Key: run_id, scope, name, step.
CREATE TABLE reference.straggler_time (
    -- The run.
    run_id BIGINT NOT NULL,
    -- The scenario's scope.
    scope VARCHAR NOT NULL,
    -- The scenario's name in its scope.
    name VARCHAR NOT NULL,
    -- Number of the step.
    step BIGINT NOT NULL,
    -- [ns] From the start of the step to the end of the last optimizer.
    simulated_ns BIGINT NOT NULL
);
