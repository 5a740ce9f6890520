-- How far a value may lie from what is expected of it, four times of five, by how far others
-- did: Student's t for 80 %, after Cornish and Fisher, in the unit of the first value.
CREATE MACRO prediction.band_reach(
    -- Root mean square of how far the others were off.
    typical_distance,
    -- How many others there are.
    other_count
) AS (
    (1.2816 + 0.8467 / other_count + 0.5711 / other_count ** 2)
    * typical_distance
    * sqrt(1 + 1 / other_count)
);
