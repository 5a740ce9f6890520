-- Where do the steps of another run take longer? The time on their critical paths by kind,
-- module and op, mean over steps. The changes add up to the one in `question.diff_period`,
-- up to rounding.
-- One row per kind of time, module and place.
-- Key: kind, module, place.
CREATE MACRO question.diff_path(
    -- The first run.
    a,
    -- The second run.
    b
) AS TABLE
SELECT
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- The module it belongs to, if Python stacks were recorded.
    module,
    -- The op; for time outside ops, the call or the work; between ops, the Python function.
    place,
    -- [ns] Mean time per step in the first run.
    a_ns,
    -- [ns] Mean time per step in the second run.
    b_ns,
    -- [ns] How much more the second run has.
    change_ns
FROM (
    WITH
    size AS (
        SELECT
            critical_path.observation_count(a) AS a_count,
            critical_path.observation_count(b) AS b_count
    )

    SELECT
        kind,
        module,
        place,
        coalesce(
            round(sum(time_ns * weight) FILTER (run_id = a) / nullif(a_count, 0)), 0
        )::BIGINT AS a_ns,
        coalesce(
            round(sum(time_ns * weight) FILTER (run_id = b) / nullif(b_count, 0)), 0
        )::BIGINT AS b_ns,
        b_ns - a_ns AS change_ns
    FROM critical_path.compared_part
    INNER JOIN critical_path.compared_observation USING (run_id, trace_id, path_id)
    CROSS JOIN size
    WHERE run_id IN (a, b)
    GROUP BY kind, module, place, a_count, b_count
)
ORDER BY abs(change_ns) DESC, kind, module, place;
