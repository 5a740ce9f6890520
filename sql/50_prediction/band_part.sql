-- Which part of a scenario's band the families of work are that it moves to another GPU, type,
-- batch size or number of ranks. All work of a family is off alike, and families err
-- independently: the three with the widest bands are a part each, all others are the fourth.
-- One row per scenario and family of work that it moves.
-- Key: scenario, family.
CREATE VIEW prediction.band_part (
    -- The scenario.
    scenario,
    -- Family, as in `prediction.changed_time` and `prediction.changed_op_time`.
    family,
    -- [ns] The width of the family's band, all work together.
    width_ns,
    -- Number of the part, from 1 to 4.
    part
) AS
SELECT
    scenario,
    family,
    round(sum(own_width_ns))::BIGINT AS width_ns,
    least(row_number() OVER (PARTITION BY scenario ORDER BY width_ns DESC, family), 4)
FROM (
    SELECT scenario, family, (high_ratio - low_ratio) * measured_ns AS own_width_ns
    FROM prediction.changed_time
    UNION ALL
    SELECT scenario, family, high_ns - low_ns
    FROM prediction.changed_op_time
) AS work
GROUP BY scenario, family;
