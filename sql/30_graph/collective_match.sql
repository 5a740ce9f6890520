-- Which collectives of different ranks belong together, and which send and receive: by
-- their recorded number, or by their order in the process group (for messages: among those
-- from one rank to another). Recordings may start at different collectives. So the
-- orders are shifted against each other until kinds and sizes agree (each rank has its own
-- size in an all_to_all), steps are the same, and ends differ by a constant time, that of
-- the clocks; among several such shifts, the one with the smallest difference is used. If
-- ends differ by more than collectives last, those of the same steps are matched if by some
-- clock none ended before all had started; on busy CPUs, ends differ by much. Nothing else
-- is, except messages of the same steps: sends may end long before their receives. Of these
-- shifts, the one with the most messages that agree is used.
-- One row per collective of a rank that is matched with the group's reference, or belongs
-- to it.
-- Key: node_id.
CREATE TABLE graph.collective_match (
    -- The kernel, the op of a process group on the CPU, or the range of a message there.
    node_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Name of the process group, or what is known of it (`graph.unnamed_group`).
    process_group,
    -- Its ranks, as far as known.
    group_size,
    -- Number of the collective in its group, the same for all ranks.
    number,
    -- The matching node of the group's reference, its first trace.
    reference_node_id,
    -- Whether another shift fits as well: collectives, and the times between them, look
    -- alike.
    is_ambiguous
) AS
WITH
grouped AS (
    SELECT
        collective.* EXCLUDE (process_group, group_size, ordinal),
        coalesce(unnamed.process_group, collective.process_group) AS process_group,
        coalesce(unnamed.group_size, collective.group_size) AS group_size,
        coalesce(unnamed.ordinal, collective.ordinal) AS ordinal
    FROM staging.collective AS collective
    LEFT JOIN graph.unnamed_group AS unnamed USING (node_id)
),

-- A send without a recorded receiver is not matched: its order in a group does not reveal
-- it.
member AS (
    SELECT
        collective.* EXCLUDE (start_ns, end_ns, kind),
        CASE WHEN sender IS NULL THEN kind END AS kind,
        sender IS NOT NULL AS is_message,
        collective.end_ns + base_ns AS end_ns,
        collective.end_ns - collective.start_ns AS duration_ns,
        CASE WHEN collective.start_ns < step.end_ns THEN step END AS step,
        count(sequence) OVER in_trace = count(*) OVER in_trace
        AND count(DISTINCT sequence) OVER in_trace = count(*) OVER in_trace AS is_numbered,
        CASE WHEN is_numbered THEN sequence ELSE ordinal END AS own_number,
        min(collective.trace_id) OVER in_group AS reference_id
    FROM grouped AS collective
    INNER JOIN staging.trace ON collective.trace_id = staging.trace.trace_id
    ASOF LEFT JOIN staging.step AS step
        ON collective.trace_id = step.trace_id AND collective.start_ns >= step.start_ns
    WHERE collective.kind NOT IN ('send', 'recv') OR sender IS NOT NULL
    WINDOW
        in_group AS (PARTITION BY collective.run_id, process_group),
        in_trace AS (PARTITION BY collective.trace_id, process_group)
),

-- Enough collectives to determine a shift.
pair AS (
    SELECT
        other.trace_id,
        other.process_group,
        other.own_number - base.own_number AS shift,
        coalesce(
            other.kind IS NOT DISTINCT FROM base.kind
            AND (
                other.element_count IS NOT DISTINCT FROM base.element_count
                OR other.kind = 'all_to_all'
            ),
            false
        ) AS agrees,
        coalesce(other.step = base.step, false) AS is_in_step,
        other.is_numbered,
        other.is_message,
        other.end_ns - base.end_ns AS late_ns,
        other.end_ns - other.duration_ns - base.end_ns AS least_ns,
        other.end_ns - base.end_ns + base.duration_ns AS most_ns,
        least(other.duration_ns, base.duration_ns) AS together_ns
    FROM member AS other
    INNER JOIN member AS base
        ON
            other.reference_id = base.trace_id
            AND other.process_group = base.process_group
            AND other.is_numbered = base.is_numbered
            AND other.own_number - base.own_number
            BETWEEN CASE WHEN other.is_numbered THEN 0 ELSE -64 END
            AND CASE WHEN other.is_numbered THEN 0 ELSE 64 END
    WHERE other.ordinal <= 256 OR other.is_numbered
),

candidate AS (
    SELECT
        trace_id,
        process_group,
        shift,
        bool_and(is_numbered) AS is_numbered,
        count(*) FILTER (agrees) AS agreeing,
        count(*) FILTER (is_message AND agrees AND pair.is_in_step) AS received,
        avg(pair.is_in_step::INTEGER) >= 0.9 AS is_in_step,
        abs(quantile_cont(late_ns, 0.5)) AS late_ns,
        greatest(quantile_cont(late_ns, 0.9) - quantile_cont(late_ns, 0.1), 20_000)
        AS spread_ns,
        quantile_cont(together_ns, 0.9) AS together_ns,
        bool_and(NOT is_message) AND max(least_ns) <= min(most_ns) AS all_meet
    FROM pair
    GROUP BY trace_id, process_group, shift
    HAVING avg(agrees::INTEGER) >= 0.9
),

fitting AS (
    SELECT *, max(agreeing) OVER (PARTITION BY trace_id, process_group) AS most
    FROM candidate
    WHERE
        is_numbered
        OR spread_ns <= greatest(100_000, together_ns)
        OR is_in_step AND (received > 0 OR all_meet)
),

shift AS (
    SELECT
        trace_id,
        process_group,
        shift,
        coalesce(
            lead(is_in_step) OVER in_order = is_in_step
            AND lead(received) OVER in_order = received
            AND lead(spread_ns) OVER in_order <= 2 * spread_ns,
            false
        ) AS is_ambiguous
    FROM fitting
    WHERE 2 * agreeing >= most
    WINDOW in_order AS (
        PARTITION BY trace_id, process_group
        ORDER BY
            is_in_step DESC, received DESC, spread_ns, late_ns, agreeing DESC, shift
    )
    QUALIFY row_number() OVER in_order = 1
)

SELECT
    other.node_id,
    other.run_id,
    other.trace_id,
    other.process_group,
    other.group_size,
    other.own_number - shift,
    base.node_id,
    is_ambiguous AND other.trace_id <> other.reference_id
FROM member AS other
INNER JOIN shift USING (trace_id, process_group)
LEFT JOIN member AS base
    ON
        other.reference_id = base.trace_id
        AND other.process_group = base.process_group
        AND other.own_number - shift = base.own_number
WHERE
    (other.run_id, other.process_group) IN (
        SELECT (run_id, process_group)
        FROM member
        GROUP BY run_id, process_group
        HAVING count(DISTINCT trace_id) > 1
    );
