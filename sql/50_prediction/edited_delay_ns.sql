-- [ns] A delay after edits: multiplied if it is above 0, because what comes early does not
-- come later; then added to; and not below 0 unless it was.
CREATE MACRO prediction.edited_delay_ns(
    -- [ns] The delay.
    delay_ns,
    -- The factor; NULL: no edit.
    factor,
    -- [ns] What is added after that.
    add_ns
) AS (
    CASE
        WHEN factor IS NULL THEN delay_ns
        WHEN delay_ns > 0 THEN greatest(round(delay_ns * factor)::BIGINT + add_ns, 0)
        ELSE delay_ns + add_ns
    END
);
