-- Process groups of collectives on the CPU that are not recorded (PyTorch before 2.3), by the
-- threads that execute them (`graph.thread_place`). Ranks are in different groups if a
-- collective ended on one of them before it started on the other, or kinds and sizes differ;
-- then, ends tell who is with whom.
-- One row per such collective of a run with several groups.
-- Key: node_id.
CREATE VIEW graph.thread_group (
    -- The op of the process group.
    node_id,
    -- The trace.
    trace_id,
    -- The group: its place among those of a rank, and its first trace; of the trace alone, if
    -- threads do not tell it.
    process_group,
    -- Its ranks, if all ranks of the job are in the run.
    group_size
) AS
WITH
-- Enough of them: every rank is compared with every other one. Two threads may start them in
-- another order than that of their calls.
numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id, place, step ORDER BY kind, element_count, start_ns, node_id
        ) AS number_in_step
    FROM graph.thread_place
    WHERE step IS NOT NULL AND place IS NOT NULL
    QUALIFY
        number_in_step <= 8
        AND dense_rank() OVER (PARTITION BY trace_id, place ORDER BY step) <= 16
),

pair AS (
    SELECT
        run_id,
        place,
        own.trace_id,
        other.trace_id AS other_id,
        avg((
            own.kind = other.kind
            AND (
                coalesce(own.element_count = other.element_count, true)
                OR staging.has_size_per_rank(own.kind)
            )
        )::INTEGER) < 0.9 AS differs,
        coalesce(
            avg((own.end_ns < other.start_ns OR other.end_ns < own.start_ns)::INTEGER)
            FILTER (staging.meets_all_ranks(own.kind)) > 0.1,
            false
        ) AS is_apart,
        median(abs(own.end_ns - other.end_ns)) AS late_ns
    FROM numbered AS own
    INNER JOIN numbered AS other USING (run_id, place, step, number_in_step)
    WHERE own.trace_id <> other.trace_id
    GROUP BY run_id, place, own.trace_id, other.trace_id
),

-- If a rank meets none, clocks differ, and times tell nothing.
counted AS (
    SELECT *
    FROM pair
    WHERE
        run_id NOT IN (
            SELECT run_id FROM pair GROUP BY run_id, trace_id HAVING bool_and(is_apart)
        )
),

-- A rank that ends nearer to one that is apart from another is apart from that, too.
apart AS (
    SELECT run_id, place, trace_id, other_id
    FROM pair
    WHERE differs
    UNION
    SELECT run_id, place, trace_id, other_id
    FROM counted
    WHERE is_apart
    UNION
    SELECT
        far.run_id,
        far.place,
        unnest([far.trace_id, far.other_id]),
        unnest([far.other_id, far.trace_id])
    FROM counted AS far
    INNER JOIN counted AS near USING (run_id, place, trace_id)
    INNER JOIN counted AS certain
        ON
            near.run_id = certain.run_id
            AND near.place = certain.place
            AND near.other_id = certain.trace_id
            AND far.other_id = certain.other_id
    WHERE certain.is_apart AND NOT near.is_apart AND near.late_ns < far.late_ns
),

part AS (
    SELECT DISTINCT run_id, trace_id, place
    FROM graph.thread_place
    WHERE
        run_id IN (SELECT run_id FROM apart)
        OR run_id IN (
            SELECT run_id
            FROM graph.thread_place
            WHERE place IS NULL OR place > 1
        )
),

joined AS (
    SELECT own.run_id, own.trace_id, own.place, min(other.trace_id) AS first_id
    FROM part AS own
    INNER JOIN part AS other USING (run_id, place)
    WHERE
        (own.place, own.trace_id, other.trace_id) NOT IN (
            SELECT (place, trace_id, other_id) FROM apart
        )
    GROUP BY own.run_id, own.trace_id, own.place
)

SELECT
    node_id,
    trace_id,
    concat_ws(
        ' ',
        process_group,
        CASE WHEN first_id IS NULL THEN '' ELSE place || ' ' END || 'of trace',
        coalesce(first_id, trace_id)
    ),
    CASE
        WHEN
            first_id IS NOT NULL
            AND executed.run_id IN (SELECT run_id FROM staging.complete_run)
            THEN count(DISTINCT trace_id) OVER (PARTITION BY executed.run_id, place, first_id)
    END
FROM graph.thread_place AS executed
INNER JOIN (SELECT DISTINCT run_id FROM part) AS several USING (run_id)
LEFT JOIN (SELECT trace_id, place, first_id FROM joined) AS joined USING (trace_id, place);
