-- [ns] A delay as edits leave it: multiplied where it is above 0, since what comes early comes no
-- later for it; added to; and not below 0 but where it was.
CREATE MACRO prediction.edited_delay_ns(
    -- [ns] The delay.
    delay_ns,
    -- What it is multiplied by; NULL: no edit.
    factor,
    -- [ns] What is then added to it.
    add_ns
) AS (
    CASE
        WHEN factor IS NULL THEN delay_ns
        WHEN delay_ns > 0 THEN greatest(round(delay_ns * factor)::BIGINT + add_ns, 0)
        ELSE delay_ns + add_ns
    END
);
