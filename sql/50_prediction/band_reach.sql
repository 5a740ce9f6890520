-- How far a value may lie from its expectation, four times out of five, given how far
-- others did: Student's t for 80 %, after Cornish and Fisher, in the unit of the first
-- value.
CREATE MACRO prediction.band_reach(
    -- Root-mean-square deviation of the others.
    typical_distance,
    -- Number of the others.
    other_count
) AS (
    (1.2816 + 0.8467 / other_count + 0.5711 / other_count ** 2)
    * typical_distance
    * sqrt(1 + 1 / other_count)
);
