-- The end of its band that a part of a scenario's changed work takes.
-- One row per scenario.
-- Key: scenario.
CREATE VIEW prediction.scenario_end (
    -- The scenario.
    scenario,
    -- The end and the part, such as `low 1`; NULL: all work takes what is expected.
    bound
) AS
SELECT scenario, any_value(bound)
FROM prediction.scenario_edit
GROUP BY scenario;
