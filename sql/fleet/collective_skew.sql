-- How far apart do ranks arrive at a collective, and is that more than the uncertainty of
-- their clocks? A collective ends for all ranks at once, so the median difference of ends
-- is the offset of two clocks; any further difference between ends is not explained by it.
-- Without collectives that ranks of a run share it is empty.
-- One row per run, process group and kind of collective that ranks share.
-- Key: run, process_group, kind.
CREATE VIEW fleet.collective_skew (
    -- The run.
    run,
    -- The process group.
    process_group,
    -- `all_reduce`, `all_gather`, and so on.
    kind,
    -- Traces that share it.
    trace_count,
    -- Collectives that at least two traces have.
    collective_count,
    -- [ns] Median time from the first rank's start to the last one's.
    p50_ns,
    -- [ns] 90th percentile.
    p90_ns,
    -- [ns] 99th percentile.
    p99_ns,
    -- [ns] Uncertainty of the clocks of two ranks after correction: 95th percentile of the
    -- remaining difference of ends, for the worst rank.
    uncertainty_ns,
    -- [1] Share of collectives at which ranks arrive further apart than that.
    certain_share
) AS
WITH
member AS (
    SELECT
        run,
        process_group,
        kind,
        number,
        collective.trace_id,
        start_ns,
        start_ns + duration_ns AS end_ns,
        min(collective.trace_id) OVER (PARTITION BY run, process_group) AS reference_id
    FROM fleet.collective AS collective
    INNER JOIN fleet.trace AS trace ON collective.trace_id = trace.trace_id
),

late AS (
    SELECT
        member.run,
        member.process_group,
        member.trace_id,
        member.end_ns - base.end_ns AS late_ns
    FROM member
    INNER JOIN member AS base
        ON
            member.reference_id = base.trace_id
            AND member.run = base.run
            AND member.process_group = base.process_group
            AND member.kind = base.kind
            AND member.number = base.number
),

median AS (
    SELECT
        run,
        process_group,
        trace_id,
        CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY late_ns)) AS BIGINT) AS offset_ns
    FROM late
    GROUP BY run, process_group, trace_id
),

clock AS (
    SELECT
        late.run,
        late.process_group,
        late.trace_id,
        offset_ns,
        CAST(round(
            percentile_cont(0.95) WITHIN GROUP (ORDER BY abs(late_ns - offset_ns))
        ) AS BIGINT) AS uncertainty_ns
    FROM late
    INNER JOIN median
        ON
            late.run = median.run
            AND late.process_group = median.process_group
            AND late.trace_id = median.trace_id
    GROUP BY late.run, late.process_group, late.trace_id, offset_ns
),

-- Clocks that agree are not corrected, as in `graph.clock`.
aligned AS (
    SELECT
        member.run,
        member.process_group,
        kind,
        number,
        member.trace_id,
        uncertainty_ns,
        start_ns
        - CASE WHEN abs(offset_ns) > uncertainty_ns + 10000 THEN offset_ns ELSE 0 END AS start_ns
    FROM member
    INNER JOIN clock
        ON
            member.run = clock.run
            AND member.process_group = clock.process_group
            AND member.trace_id = clock.trace_id
),

meeting AS (
    SELECT
        run,
        process_group,
        kind,
        count(*) AS ranks,
        max(start_ns) - min(start_ns) AS skew_ns,
        max(uncertainty_ns) AS uncertainty_ns
    FROM aligned
    GROUP BY run, process_group, kind, number
    HAVING count(*) > 1
)

SELECT
    run,
    process_group,
    kind,
    max(ranks),
    count(*),
    CAST(round(percentile_cont(0.5) WITHIN GROUP (ORDER BY skew_ns)) AS BIGINT),
    CAST(round(percentile_cont(0.9) WITHIN GROUP (ORDER BY skew_ns)) AS BIGINT),
    CAST(round(percentile_cont(0.99) WITHIN GROUP (ORDER BY skew_ns)) AS BIGINT),
    max(uncertainty_ns),
    CAST(sum(CASE WHEN skew_ns > uncertainty_ns THEN 1 ELSE 0 END) AS DOUBLE)
    / CAST(count(*) AS DOUBLE)
FROM meeting
GROUP BY run, process_group, kind
ORDER BY run, process_group, kind;
