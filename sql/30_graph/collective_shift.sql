-- By how much the order of collectives of each trace is shifted against that of the group's
-- reference (`graph.collective_order`): recordings may start at different collectives. The
-- orders are shifted until kinds and sizes agree (unless each rank has its own,
-- `staging.has_size_per_rank`), steps are the same, and ends differ by a constant time, that
-- of the clocks; among several such shifts, the one with the smallest difference is used. If
-- ends differ by more than collectives last, those of the same steps are matched if by some
-- clock none ended before all had started; on busy CPUs, ends differ by much, and nothing
-- but the same steps is matched if there are any. Nothing else is, except messages of the
-- same steps: sends may end long before their receives. Of these shifts, the one with the
-- most messages that agree is used.
-- One row per trace and process group whose shift is found.
-- Key: trace_id, process_group.
CREATE VIEW graph.collective_shift (
    -- The trace.
    trace_id,
    -- The process group.
    process_group,
    -- The number in this trace, less that in the reference.
    shift,
    -- Whether another shift fits as well: collectives, and the times between them, look
    -- alike.
    is_ambiguous
) AS
WITH
-- Enough collectives to determine a shift.
pair AS (
    SELECT
        other.trace_id,
        other.process_group,
        other.number - base.number AS shift,
        coalesce(
            other.kind IS NOT DISTINCT FROM base.kind
            AND (
                coalesce(other.element_count = base.element_count, true)
                OR staging.has_size_per_rank(other.kind)
            )
            OR other.signature = base.next_signature
            AND other.next_signature = base.signature
            OR other.signature = base.previous_signature
            AND other.previous_signature = base.signature,
            false
        ) AS agrees,
        coalesce(other.step = base.step, false) AS is_in_step,
        other.is_numbered,
        other.is_message,
        other.is_on_cpu,
        least(other.group_count, base.group_count) AS shorter_count,
        NOT other.is_on_cpu OR staging.meets_all_ranks(other.kind) AS meet,
        other.end_ns - base.end_ns AS late_ns,
        CASE WHEN meet THEN other.start_ns - base.end_ns END AS least_ns,
        CASE WHEN meet THEN other.end_ns - base.start_ns END AS most_ns,
        least(other.end_ns - other.start_ns, base.end_ns - base.start_ns) AS together_ns
    FROM graph.collective_order AS other
    INNER JOIN graph.collective_order AS base
        ON
            other.reference_id = base.trace_id
            AND other.process_group = base.process_group
            AND other.is_numbered = base.is_numbered
            AND other.number - base.number
            BETWEEN CASE WHEN other.is_numbered THEN 0 ELSE -64 END
            AND CASE WHEN other.is_numbered THEN 0 ELSE 64 END
    WHERE other.is_numbered OR other.number <= 256
),

scored AS (
    SELECT
        trace_id,
        process_group,
        shift,
        bool_and(is_numbered) AS is_numbered,
        count(*) AS pair_count,
        least(any_value(shorter_count), 256) AS shorter_count,
        bool_and(is_on_cpu AND NOT is_message AND NOT is_numbered) AS is_executed_on_cpu,
        count(*) FILTER (agrees) AS agreeing,
        count(*) FILTER (is_message AND agrees AND pair.is_in_step) AS received,
        avg(pair.is_in_step::INTEGER) >= 0.9 AS is_in_step,
        max(CASE WHEN avg(pair.is_in_step::INTEGER) >= 0.9 THEN count(*) END)
        OVER (PARTITION BY trace_id, process_group) AS step_pair_count,
        abs(quantile_cont(late_ns, 0.5)) AS late_ns,
        greatest(quantile_cont(late_ns, 0.9) - quantile_cont(late_ns, 0.1), 20_000)
        AS spread_ns,
        quantile_cont(together_ns, 0.9) AS together_ns,
        bool_and(NOT is_message) AND coalesce(max(least_ns) <= min(most_ns), true)
        AS all_meet
    FROM pair
    GROUP BY trace_id, process_group, shift
),

-- On busy CPUs, a few ends agree by chance: of recordings that share steps, what these have in
-- common has to agree, otherwise most of the shorter one.
candidate AS (
    SELECT *
    FROM scored
    WHERE
        agreeing >= 0.9 * pair_count
        AND (
            NOT is_executed_on_cpu
            OR CASE
                WHEN step_pair_count IS NULL THEN 2 * pair_count > shorter_count
                ELSE is_in_step AND pair_count >= 0.9 * step_pair_count
            END
        )
),

fitting AS (
    SELECT *, max(agreeing) OVER (PARTITION BY trace_id, process_group) AS most
    FROM candidate
    WHERE
        is_numbered
        OR spread_ns <= greatest(100_000, together_ns)
        OR is_in_step AND (received > 0 OR all_meet)
)

SELECT
    trace_id,
    process_group,
    shift,
    coalesce(
        lead(is_in_step) OVER in_order = is_in_step
        AND lead(received) OVER in_order = received
        AND lead(spread_ns) OVER in_order <= 2 * spread_ns,
        false
    )
FROM fitting
WHERE 2 * agreeing >= most
WINDOW in_order AS (
    PARTITION BY trace_id, process_group
    ORDER BY is_in_step DESC, received DESC, spread_ns, late_ns, agreeing DESC, shift
)
QUALIFY row_number() OVER in_order = 1;
