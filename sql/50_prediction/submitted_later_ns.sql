-- [ns] How much later work is submitted if its launch takes another time than measured.
CREATE MACRO prediction.submitted_later_ns(
    -- [ns] Measured duration of the launch.
    span_ns,
    -- [ns] Its duration in a method or scenario.
    new_ns,
    -- [1] The share of it that passes before the submission.
    submit_share
) AS (
    floor((new_ns - span_ns) * submit_share + 0.5)::BIGINT
);
