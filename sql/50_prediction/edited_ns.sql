-- [ns] Duration after edits: a set value replaces the time, factors multiply it, additions
-- come last; the result is at least 0.
CREATE MACRO prediction.edited_ns(
    -- [ns] Its time in the baseline.
    usual_ns,
    -- [ns] The time it is set to; NULL: none.
    set_ns,
    -- The factor for its time; NULL: it is not edited.
    factor,
    -- [ns] What is added after that.
    add_ns
) AS (
    CASE
        WHEN factor IS NULL THEN usual_ns
        ELSE greatest(round(coalesce(set_ns, usual_ns) * factor)::BIGINT + add_ns, 0)
    END
);
