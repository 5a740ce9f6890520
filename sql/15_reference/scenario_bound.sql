-- Periods of steps in a scenario if a part of the work that it changes takes as long as one
-- end of its band says (`prediction.band_part`); filled in a side database, for one prediction.
-- One row per scenario, method, step and end.
-- Key: scenario, method, step_id, bound.
CREATE TABLE reference.scenario_bound (
    -- The scenario.
    scenario VARCHAR NOT NULL,
    -- The method, as in `prediction.method`.
    method VARCHAR NOT NULL,
    -- The step.
    step_id BIGINT NOT NULL,
    -- The end and the part, as in `prediction.scenario_edit`.
    bound VARCHAR NOT NULL,
    -- [ns] The period.
    predicted_ns BIGINT NOT NULL
);
