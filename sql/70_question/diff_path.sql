-- Where do the steps of another run take longer? The time on their critical paths by kind,
-- module and op, in the mean over steps; the changes add up to that of
-- `question.diff_period`, but for rounding.
-- One row per kind of time, module and place.
-- Key: kind, module, place.
CREATE MACRO question.diff_path(
    -- The one run.
    a,
    -- The other.
    b
) AS TABLE
SELECT
    -- Kind of time, as in `critical_path.interval`.
    kind,
    -- The module that it is for; where the Python stack was recorded.
    module,
    -- The op, or what is of none the call or the work; between ops the Python function.
    place,
    -- [ns] Mean time a step of the one.
    a_ns,
    -- [ns] Mean time a step of the other.
    b_ns,
    -- [ns] By how much the other has more.
    change_ns
FROM (
    WITH
    size AS (
        SELECT
            critical_path.compared_count(a) AS a_count,
            critical_path.compared_count(b) AS b_count
    )

    SELECT
        kind,
        module,
        place,
        coalesce(round(sum(time_ns) FILTER (run_id = a) / nullif(a_count, 0)), 0)::BIGINT AS a_ns,
        coalesce(round(sum(time_ns) FILTER (run_id = b) / nullif(b_count, 0)), 0)::BIGINT AS b_ns,
        b_ns - a_ns AS change_ns
    FROM critical_path.compared_part
    CROSS JOIN size
    WHERE run_id IN (a, b)
    GROUP BY kind, module, place, a_count, b_count
)
ORDER BY abs(change_ns) DESC, kind, module, place;
