-- Which collectives of different ranks are the same one: by the number that is recorded
-- with them, or by their order in the process group. Recordings may begin at different
-- collectives, so the orders are shifted against each other until kinds and sizes agree,
-- and ends differ by the same time, that of the clocks; of several such shifts the one is
-- taken for which that is least.
-- One row per collective kernel whose run has its process group on several ranks.
-- Key: kernel_id.
CREATE TABLE graph.collective_match (
    -- The kernel.
    kernel_id,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Name of the process group.
    process_group,
    -- Number of the collective in its group, the same for all ranks.
    number,
    -- The kernel of the group's reference, its first trace, that is the same collective.
    reference_kernel_id
) AS
WITH
-- A send has one rank on the other side, which its order in a group does not tell.
kernel AS (
    SELECT
        collective.*,
        work.end_ns + base_ns AS end_ns,
        coalesce(sequence, place) AS own_number,
        sequence IS NOT NULL AS is_numbered,
        min(collective.trace_id) OVER in_group AS reference_id
    FROM staging.collective AS collective
    INNER JOIN staging.kernel AS work USING (kernel_id)
    INNER JOIN staging.trace ON collective.trace_id = staging.trace.trace_id
    WHERE collective.kind NOT IN ('send', 'recv')
    WINDOW in_group AS (PARTITION BY collective.run_id, process_group)
),

-- Enough collectives to tell a shift by.
pair AS (
    SELECT
        other.trace_id,
        other.process_group,
        other.own_number - reference.own_number AS shift,
        coalesce(
            other.kind = reference.kind
            AND other.element_count IS NOT DISTINCT FROM reference.element_count,
            false
        ) AS agrees,
        other.end_ns - reference.end_ns AS late_ns
    FROM kernel AS other
    INNER JOIN kernel AS reference
        ON
            other.reference_id = reference.trace_id
            AND other.process_group = reference.process_group
            AND other.is_numbered = reference.is_numbered
            AND other.own_number - reference.own_number
            BETWEEN CASE WHEN other.is_numbered THEN 0 ELSE -64 END
            AND CASE WHEN other.is_numbered THEN 0 ELSE 64 END
    WHERE other.place <= 256
),

candidate AS (
    SELECT
        trace_id,
        process_group,
        shift,
        count(*) FILTER (agrees) AS agreeing,
        abs(quantile_cont(late_ns, 0.5)) AS late_ns,
        quantile_cont(late_ns, 0.9) - quantile_cont(late_ns, 0.1) AS spread_ns
    FROM pair
    GROUP BY trace_id, process_group, shift
    HAVING avg(agrees::INTEGER) >= 0.9
),

shift AS (
    SELECT trace_id, process_group, shift
    FROM (
        SELECT *, max(agreeing) OVER (PARTITION BY trace_id, process_group) AS most
        FROM candidate
    )
    WHERE 2 * agreeing >= most
    QUALIFY row_number() OVER (
        PARTITION BY trace_id, process_group
        ORDER BY greatest(spread_ns, 20_000), late_ns, agreeing DESC, shift
    ) = 1
)

SELECT
    other.kernel_id,
    other.run_id,
    other.trace_id,
    other.process_group,
    other.own_number - shift,
    reference.kernel_id
FROM kernel AS other
INNER JOIN shift USING (trace_id, process_group)
LEFT JOIN kernel AS reference
    ON
        other.reference_id = reference.trace_id
        AND other.process_group = reference.process_group
        AND other.own_number - shift = reference.own_number
WHERE
    (other.run_id, other.process_group) IN (
        SELECT (run_id, process_group)
        FROM kernel
        GROUP BY run_id, process_group
        HAVING count(DISTINCT trace_id) > 1
    );
