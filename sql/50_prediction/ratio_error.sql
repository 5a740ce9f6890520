-- By how many times the ratio of two predicted times is off at most, in four of five cases.
-- One row per basis of `prediction.changed_time` that no model says it of, and units of products.
-- Key: basis, products_in.
CREATE VIEW prediction.ratio_error (
    -- What the ratio is based on.
    basis,
    -- The units of a product by rooflines (`prediction.arithmetic_unit`); `any` for other work.
    products_in,
    -- The factor, to either side.
    off_by
) AS
-- Public measurements of shapes on two GPUs, or with two batch sizes or types on one
-- (`docs/kernel-transfer.md`): 1.6 holds four of five ratios of rooflines between two GPUs, and
-- more of the others; those of collectives within a node are as good (`docs/ranks.md`). Products
-- outside matrix units, and of types of a byte or less, whose libraries differ, are off by more.
-- Unknown work lies between the ratios of all rates (`prediction.gpu_ratio`), but for 1.2 times.
SELECT
    basis,
    products_in,
    CASE WHEN products_in = 'fp32' THEN 2 WHEN products_in IN ('byte', 'fp4') THEN 2.2
        ELSE off_by END::DOUBLE
FROM (VALUES
    ('roofline', 1.6),
    ('links', 1.6),
    ('bandwidth', 1.2),
    ('size', 1.2)
) AS listed (basis, off_by)
CROSS JOIN (
    FROM prediction.arithmetic_unit SELECT unit AS products_in UNION ALL SELECT 'any'
)
WHERE basis = 'roofline' OR products_in = 'any';
