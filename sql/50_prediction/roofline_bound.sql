-- Which side of the roofline work is on: `compute` or `memory`, whichever takes longer at
-- its peak; NULL if neither is known.
CREATE MACRO prediction.roofline_bound(
    -- [1] Share of the arithmetic peak that it reaches.
    compute_share,
    -- [1] Share of the peak memory bandwidth.
    memory_share
) AS (
    CASE
        WHEN compute_share > memory_share THEN 'compute'
        WHEN memory_share > 0 THEN 'memory'
    END
);
