-- The simple guesses (`question.prediction_guess`) that a method is compared with: those
-- that use no more information. All know kernel times; only guesses for measured host times
-- know those of the step.
-- One row per source of host time, and guess.
-- Key: host_from, guess.
CREATE VIEW prediction.fair_guess (
    -- Source of host times, as in `prediction.method`; `measured` in replay.
    host_from,
    -- The guess.
    guess
) AS
WITH
known AS (
    SELECT
        ['other_steps', 'step_before', 'gpu_scaled', 'gpu_active'] AS steps,
        ['other_ranks', 'common_end'] AS ranks
)

SELECT source, unnest(guesses)
FROM known
CROSS JOIN LATERAL unnest([
    {'source': 'measured', 'guesses': steps || ranks || ['busiest']},
    {'source': 'run', 'guesses': steps || ranks},
    {'source': 'run_by_name', 'guesses': steps || ranks},
    {'source': 'other_steps', 'guesses': steps},
    {'source': 'other_ranks', 'guesses': ranks || ['gpu_active']},
    {'source': 'other_runs', 'guesses': ['gpu_active']},
    {'source': 'library', 'guesses': ['gpu_active']}
]) AS listed (fair)
CROSS JOIN LATERAL (SELECT fair.source AS source, fair.guesses AS guesses);
