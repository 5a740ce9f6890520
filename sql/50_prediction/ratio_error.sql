-- By how many times the ratio of two predicted times is off at most, in four of five cases.
-- One row per basis of `prediction.changed_time` that no model says it of.
-- Key: basis.
CREATE VIEW prediction.ratio_error (
    -- What the ratio is based on.
    basis,
    -- The factor, to either side.
    off_by
) AS
-- Public measurements of shapes on two GPUs, or with two batch sizes or types on one
-- (`docs/kernel-transfer.md`): 1.6 holds 84 % of the ratios of rooflines between two GPUs, and
-- more of the others; those of collectives within a node are as good (`docs/ranks.md`). Unknown
-- work lies between the ratios of all rates (`prediction.gpu_ratio`), but for 1.2 times.
SELECT basis, off_by::DOUBLE
FROM (VALUES
    ('roofline', 1.6),
    ('links', 1.6),
    ('bandwidth', 1.2),
    ('size', 1.2)
) AS listed (basis, off_by);
