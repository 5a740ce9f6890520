-- Self time of ops that compute on the host at another batch size, as simulated: that of
-- `prediction.changed_op_time`, or one end of its band for a part of the work
-- (`prediction.band_part`).
-- One row per scenario and op whose batch size it changes.
-- Key: scenario, op_id.
CREATE VIEW prediction.bounded_op_time (
    -- The scenario.
    scenario,
    -- The op.
    op_id,
    -- [ns] Its measured self time.
    own_ns,
    -- [ns] Its self time as simulated.
    changed_ns
) AS
SELECT
    scenario,
    op_id,
    own_ns,
    CASE bound
        WHEN 'low ' || part THEN low_ns
        WHEN 'high ' || part THEN high_ns
        ELSE changed_ns
    END
FROM prediction.changed_op_time
INNER JOIN prediction.band_part USING (scenario, family)
INNER JOIN prediction.scenario_end USING (scenario);
