-- Which ops and kernels are slower, faster, new or gone in another run? Ops are matched by
-- module, pass, op, shape and order in the step, GPU work by its op and its order in the
-- op: so a kernel that replaces another is a row with both names.
-- One row per device, module, pass, op, shape, and names on both sides.
-- Key: device, module, is_backward, op, shape, a_name, b_name.
CREATE MACRO question.diff_work(
    -- The first run.
    a,
    -- The second run.
    b
) AS TABLE
SELECT
    -- `host` (self time of ops) or `gpu`.
    device,
    -- The module, if Python stacks were recorded.
    module,
    -- Whether it is in the backward pass of that module.
    is_backward,
    -- The op, or the op that launched the work.
    op,
    -- Dimensions of its arguments.
    shape,
    -- Its name in the first run; NULL if absent.
    a_name,
    -- Its name in the second run; NULL if absent.
    b_name,
    -- `added`, `removed`, `slower`, `faster` or `same`.
    outcome,
    -- Mean number of occurrences per step in the first run.
    a_occurrences,
    -- Mean number of occurrences per step in the second run.
    b_occurrences,
    -- [ns] Mean time per step in the first run.
    a_ns,
    -- [ns] Mean time per step in the second run.
    b_ns,
    -- [ns] How much more the second run has.
    change_ns,
    -- Probability that it is due to chance, as in `question.diff_period`; NULL if there are
    -- too few steps, and for what is added or removed.
    p_value,
    -- Whether it is significant, given the number of rows: at most 5 % of the rows marked
    -- so are wrong (Benjamini and Hochberg), and the medians differ by more than those of
    -- two starts may (`question.start_chance_ns`).
    is_significant
FROM (
    WITH
    size AS (
        SELECT
            critical_path.observation_count(a) AS a_count,
            critical_path.observation_count(b) AS b_count
    ),

    work AS (
        SELECT
            *,
            min(CASE run_id WHEN a THEN name END) OVER matched AS a_name,
            min(CASE run_id WHEN b THEN name END) OVER matched AS b_name
        FROM critical_path.compared_work
        WHERE run_id IN (a, b)
        WINDOW matched AS (
            PARTITION BY device, module, is_backward, op, shape, ordinal, position,
                CASE WHEN op IS NULL THEN name END
        )
    ),

    step AS (
        SELECT
            device, module, is_backward, op, shape, a_name, b_name, run_id, observation,
            round(sum(time_ns * weight))::BIGINT AS time_ns, sum(weight) AS occurrences
        FROM work
        INNER JOIN critical_path.compared_observation USING (run_id, trace_id, path_id)
        GROUP BY ALL
    ),

    -- Steps without it count as 0.
    listed AS (
        SELECT
            device, module, is_backward, op, shape, a_name, b_name,
            coalesce(sum(occurrences) FILTER (run_id = a), 0) / nullif(a_count, 0) AS a_occurrences,
            coalesce(sum(occurrences) FILTER (run_id = b), 0) / nullif(b_count, 0) AS b_occurrences,
            list_resize(
                coalesce(list(time_ns ORDER BY time_ns) FILTER (run_id = a), []), a_count, 0
            ) AS a_times,
            list_resize(
                coalesce(list(time_ns ORDER BY time_ns) FILTER (run_id = b), []), b_count, 0
            ) AS b_times
        FROM step
        CROSS JOIN size
        GROUP BY device, module, is_backward, op, shape, a_name, b_name, a_count, b_count
    ),

    tested AS (
        SELECT
            *,
            round(list_avg(a_times))::BIGINT AS a_ns,
            round(list_avg(b_times))::BIGINT AS b_ns,
            b_ns - a_ns AS change_ns,
            abs(list_median(b_times) - list_median(a_times))
            > question.start_chance_ns(a_times, b_times) AS exceeds_chance,
            CASE
                WHEN a_name IS NOT NULL AND b_name IS NOT NULL
                    THEN question.rank_test_p(a_times, b_times)
            END AS p_value
        FROM listed
    ),

    -- The expected number of rows that are as unlikely by chance.
    ordered AS (
        SELECT
            *,
            p_value * count(p_value) OVER ()
            <= 0.05 * count(p_value) OVER (ORDER BY p_value) AS is_rare
        FROM tested
    )

    SELECT
        *,
        CASE
            WHEN a_name IS NULL THEN 'added'
            WHEN b_name IS NULL THEN 'removed'
            WHEN change_ns > 0 THEN 'slower'
            WHEN change_ns < 0 THEN 'faster'
            ELSE 'same'
        END AS outcome,
        CASE
            WHEN p_value IS NOT NULL
                THEN coalesce(
                    p_value <= max(p_value) FILTER (is_rare) OVER () AND exceeds_chance,
                    false
                )
        END AS is_significant
    FROM ordered
)
ORDER BY abs(change_ns) DESC, device, op, shape, module, a_name, b_name, is_backward;
