-- Process groups of collectives on GPUs whose groups are not recorded (PyTorch before 2.3):
-- ranks whose collectives, in the order of each step, do not end together are in different
-- groups, and then a rank executes each group on a stream of its own. Those of one group
-- end within microseconds, by constant clocks.
-- One row per such collective of a run with several groups.
-- Key: node_id.
CREATE TABLE graph.unnamed_group (
    -- The kernel.
    node_id,
    -- The trace.
    trace_id,
    -- The group: its place among the streams of a rank, and its first trace.
    process_group,
    -- Its ranks, if all ranks of the job are in the run.
    group_size,
    -- Ordinal among the collectives of its group in the trace, from 1.
    ordinal
) AS
WITH
kernel AS (
    SELECT
        collective.node_id,
        collective.run_id,
        collective.trace_id,
        stream,
        dense_rank() OVER (PARTITION BY collective.trace_id ORDER BY stream) AS place,
        collective.kind,
        element_count,
        collective.start_ns,
        collective.end_ns + base_ns AS end_ns,
        CASE WHEN collective.start_ns < step.end_ns THEN step END AS step
    FROM staging.collective AS collective
    INNER JOIN staging.gpu_op AS work ON collective.node_id = work.gpu_op_id
    INNER JOIN staging.trace AS trace ON collective.trace_id = trace.trace_id
    ASOF LEFT JOIN staging.step AS step
        ON collective.trace_id = step.trace_id AND collective.start_ns >= step.start_ns
    WHERE
        collective.process_group = ''
        AND collective.kind NOT IN ('send', 'recv')
),

-- Enough of them: every rank is compared with every other one.
numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY trace_id, place, step ORDER BY start_ns, node_id
        ) AS ordinal
    FROM kernel
    WHERE step IS NOT NULL
    QUALIFY
        ordinal <= 8
        AND dense_rank() OVER (PARTITION BY trace_id, place ORDER BY step) <= 4
),

pair AS (
    SELECT
        own.run_id,
        place,
        own.trace_id,
        other.trace_id AS other_id,
        avg(
            coalesce(
                own.kind = other.kind
                AND own.element_count IS NOT DISTINCT FROM other.element_count,
                false
            )::INTEGER
        ) >= 0.9 AS agrees,
        quantile_cont(own.end_ns - other.end_ns, 0.9)
        - quantile_cont(own.end_ns - other.end_ns, 0.1) AS spread_ns
    FROM numbered AS own
    INNER JOIN numbered AS other USING (run_id, place, step, ordinal)
    WHERE own.trace_id <> other.trace_id
    GROUP BY own.run_id, place, own.trace_id, other.trace_id
    HAVING count(*) >= 3
),

-- Ranks whose ends differ much more than those of the rank that is nearest.
apart AS (
    SELECT run_id, place, trace_id, other_id, agrees
    FROM (
        SELECT *, min(spread_ns) OVER (PARTITION BY place, trace_id) AS least_ns
        FROM pair
    )
    WHERE NOT agrees OR spread_ns > greatest(4 * least_ns, 50_000)
),

part AS (
    SELECT DISTINCT run_id, trace_id, place
    FROM kernel
    WHERE run_id IN (SELECT run_id FROM apart WHERE agrees)
),

joined AS (
    SELECT own.run_id, own.trace_id, own.place, min(other.trace_id) AS first_id
    FROM part AS own
    INNER JOIN part AS other USING (run_id, place)
    WHERE
        (place, own.trace_id, other.trace_id) NOT IN (
            SELECT (place, trace_id, other_id) FROM apart
        )
        AND (place, other.trace_id, own.trace_id) NOT IN (
            SELECT (place, trace_id, other_id) FROM apart
        )
    GROUP BY own.run_id, own.trace_id, own.place
),

sized AS (
    SELECT
        *,
        CASE
            WHEN run_id IN (SELECT run_id FROM staging.complete_run)
                THEN count(*) OVER (PARTITION BY run_id, place, first_id)
        END AS group_size
    FROM joined
)

SELECT
    node_id,
    trace_id,
    concat('stream ', place, ' of trace ', first_id),
    group_size,
    row_number() OVER (PARTITION BY trace_id, place ORDER BY start_ns, node_id)
FROM kernel
INNER JOIN sized USING (trace_id, place);
