-- How well are steps predicted, in total, by GPU, run and trace? For a method that takes
-- host times from elsewhere, steps count if less than half of their host time is taken as
-- measured; for `naive` and `other_steps`, those of traces with at least three steps. Next
-- to each is the strongest simple guess (`prediction_guess`) that uses no more information
-- than the method and can be made for all these steps. Methods that learn from the run have
-- seen the predicted step; if it is the only one there, they are scored separately.
-- One row per method, with and without other steps for methods that learn from the run, and
-- group.
-- Key: method, has_others, grouping, gpu, run_id, trace_id.
CREATE VIEW question.prediction_score (
    -- The method, as in `prediction.method`; `naive` is the median of the trace's other
    -- steps.
    method,
    -- For methods that learn from the run: whether it has steps other than the predicted
    -- one; if not, the prediction has seen everything that it predicts. NULL for other
    -- methods.
    has_others,
    -- `all`, `gpu`, `run` or `trace`.
    grouping,
    -- Name of the GPU; NULL for `all`, and if the trace does not record it.
    gpu,
    -- The run; NULL for `all` and `gpu`.
    run_id,
    -- The trace; NULL except for `trace`.
    trace_id,
    -- Steps.
    step_count,
    -- [1] Geometric mean of the absolute errors, each at least 0.01 %.
    gmae_share,
    -- [1] Mean of the absolute errors.
    mape_share,
    -- [1] 90th percentile of the absolute errors.
    p90_share,
    -- [1] Largest of the absolute errors.
    worst_share,
    -- [1] Mean of the signed errors.
    bias_share,
    -- [1] Mean share of the host time that is taken as measured.
    as_measured_share,
    -- The strongest guess: the one with the smallest mean absolute error.
    guess,
    -- [1] Geometric mean of its absolute errors, each at least 0.01 %.
    guess_gmae_share,
    -- [1] Mean of its absolute errors.
    guess_mape_share
) AS
WITH
error AS (
    SELECT
        *,
        count(DISTINCT step_id) OVER (PARTITION BY trace_id) > 2 AS has_two_others,
        count(DISTINCT step_id) OVER (PARTITION BY run_id) > 1 AS has_others
    FROM question.prediction_error
    INNER JOIN staging.trace USING (trace_id)
    INNER JOIN prediction.method USING (method)
),

step AS (
    SELECT
        method,
        CASE WHEN host_from LIKE 'run%' THEN error.has_others END AS has_others,
        position,
        -- A method that learned from that step alone knows its host times.
        CASE
            WHEN host_from IS NULL OR host_from LIKE 'run%' AND NOT error.has_others
                THEN 'measured'
            ELSE host_from
        END AS host_from,
        step_id,
        trace_id,
        error_share,
        as_measured_share
    FROM error
    WHERE
        error_share IS NOT NULL
        AND prediction.is_judged(host_from, is_simulated, as_measured_share)
        AND (method <> 'other_steps' OR has_two_others)
    UNION ALL
    SELECT DISTINCT ON (step_id)
        'naive', NULL, 0, NULL, step_id, trace_id, naive_error_share, 0
    FROM error
    WHERE naive_error_share IS NOT NULL AND has_two_others
),

-- The guesses for each step, and the prediction itself, which has none.
judged AS (
    SELECT step.*, NULL AS guess FROM step
    UNION ALL BY NAME
    SELECT step.* REPLACE (guessed.error_share AS error_share), guess
    FROM step
    INNER JOIN prediction.fair_guess USING (host_from)
    INNER JOIN question.prediction_guess AS guessed USING (step_id, guess)
),

scored AS (
    SELECT
        method,
        has_others,
        position,
        guess,
        CASE
            WHEN grouping(judged.trace_id) = 0 THEN 'trace'
            WHEN grouping(trace.run_id) = 0 THEN 'run'
            WHEN grouping(gpu) = 0 THEN 'gpu'
            ELSE 'all'
        END AS grouping,
        gpu,
        trace.run_id,
        judged.trace_id,
        count(*) AS step_count,
        prediction.gmae_share(error_share) AS gmae_share,
        -- Floating-point sums depend on the order.
        round(avg(abs(error_share)), 6) AS mape_share,
        round(quantile_cont(abs(error_share), 0.9), 6) AS p90_share,
        round(max(abs(error_share)), 6) AS worst_share,
        round(avg(error_share), 6) AS bias_share,
        round(avg(as_measured_share), 6) AS as_measured_share
    FROM judged
    INNER JOIN staging.trace AS trace ON judged.trace_id = trace.trace_id
    LEFT JOIN staging.trace_gpu ON judged.trace_id = trace_gpu.trace_id
    GROUP BY GROUPING SETS (
        (method, has_others, position, guess),
        (method, has_others, position, guess, gpu),
        (method, has_others, position, guess, gpu, trace.run_id),
        (method, has_others, position, guess, gpu, trace.run_id, judged.trace_id)
    )
)

SELECT
    scored.method,
    scored.has_others,
    scored.grouping,
    scored.gpu,
    scored.run_id,
    scored.trace_id,
    scored.step_count,
    scored.gmae_share,
    scored.mape_share,
    scored.p90_share,
    scored.worst_share,
    scored.bias_share,
    scored.as_measured_share,
    strongest.guess,
    strongest.gmae_share,
    strongest.mape_share
FROM scored
LEFT JOIN (FROM scored WHERE guess IS NOT NULL) AS strongest
    ON
        scored.method = strongest.method
        AND scored.has_others IS NOT DISTINCT FROM strongest.has_others
        AND scored.grouping = strongest.grouping
        AND scored.gpu IS NOT DISTINCT FROM strongest.gpu
        AND scored.run_id IS NOT DISTINCT FROM strongest.run_id
        AND scored.trace_id IS NOT DISTINCT FROM strongest.trace_id
        AND scored.step_count = strongest.step_count
WHERE scored.guess IS NULL
QUALIFY row_number() OVER (
    PARTITION BY
        scored.method, scored.has_others, scored.grouping, scored.gpu, scored.run_id,
        scored.trace_id
    ORDER BY strongest.mape_share NULLS LAST, strongest.guess
) = 1
ORDER BY
    list_position(['all', 'gpu', 'run', 'trace'], scored.grouping),
    scored.gpu,
    scored.run_id,
    scored.trace_id,
    scored.position,
    scored.has_others DESC;
