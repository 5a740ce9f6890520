-- The factor for the time of GPU work that a scenario moves, as simulated: that of
-- `prediction.changed_time`, or one end of its band for a part of the work
-- (`prediction.band_part`).
-- One row per scenario and GPU op that it moves.
-- Key: scenario, gpu_op_id.
CREATE VIEW prediction.bounded_time (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- The factor for its time.
    ratio
) AS
SELECT
    scenario,
    gpu_op_id,
    CASE bound
        WHEN 'low ' || part THEN low_ratio
        WHEN 'high ' || part THEN high_ratio
        ELSE ratio
    END
FROM prediction.changed_time
INNER JOIN prediction.band_part USING (scenario, family)
INNER JOIN prediction.scenario_end USING (scenario);
