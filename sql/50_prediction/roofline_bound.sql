-- Which side of the roofline work lies on: `compute` or `memory`, whichever it would take
-- longer for at the peak; NULL where neither is known.
CREATE MACRO prediction.roofline_bound(
    -- [1] Share of the peak of arithmetic that it reaches.
    compute_share,
    -- [1] Share of the peak of the memory's bandwidth.
    memory_share
) AS (
    CASE
        WHEN compute_share > memory_share THEN 'compute'
        WHEN memory_share > 0 THEN 'memory'
    END
);
