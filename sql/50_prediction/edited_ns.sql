-- [ns] How long something lasts once it is edited: what is set stands for its time, is
-- multiplied, and added to; no time is below 0.
CREATE MACRO prediction.edited_ns(
    -- [ns] Its time in the baseline.
    usual_ns,
    -- [ns] What it is set to; NULL: to nothing.
    set_ns,
    -- What its time is multiplied by; NULL: it is not edited.
    factor,
    -- [ns] What is then added to it.
    add_ns
) AS (
    CASE
        WHEN factor IS NULL THEN usual_ns
        ELSE greatest(round(coalesce(set_ns, usual_ns) * factor)::BIGINT + add_ns, 0)
    END
);
