-- Whether GPU work started so much later than its known causes explain, 15 us, that it must
-- have waited for something else.
CREATE MACRO graph.shows_wait(
    -- [ns] The delay of its start.
    excess_ns
) AS (
    excess_ns > 15_000
);
