-- Whether GPU work began so much later than what is known of it explains, 15 us, that it
-- must have waited for something else.
CREATE MACRO graph.shows_wait(
    -- [ns] By how much it began later.
    excess_ns
) AS (
    excess_ns > 15_000
);
