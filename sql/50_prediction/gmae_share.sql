-- [1] Geometric mean of absolute errors, each at least 0.01 %; rounded, because
-- floating-point sums depend on the order.
CREATE MACRO prediction.gmae_share(
    -- [1] The errors, of a group.
    error_share
) AS (
    round(exp(avg(ln(greatest(abs(error_share), 0.0001)))), 6)
);
