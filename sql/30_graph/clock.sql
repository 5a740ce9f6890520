-- The clock of each rank against that of the run's first: collectives end at the same
-- time on all ranks, whatever their clocks say.
-- One row per trace of a run whose collectives are matched.
-- Key: trace_id.
CREATE TABLE graph.clock (
    -- The trace.
    trace_id,
    -- The run it is of.
    run_id,
    -- Trace whose clock is the run's.
    reference_trace_id,
    -- Collectives that it was compared by.
    collective_count,
    -- [ns] Median of how much later than on the reference they end by this clock.
    offset_ns,
    -- [ns] 95th percentile of how far single ones are from that.
    uncertainty_ns,
    -- [ns] What to add to times of this trace for times since 1970 by the run's clock: its
    -- time base, less the offset where that is more than its uncertainty and 10 us.
    shift_ns
) AS
WITH RECURSIVE
late AS (
    SELECT
        match.run_id,
        match.trace_id,
        reference.trace_id AS reference_id,
        (own.end_ns + own_trace.base_ns) - (reference.end_ns + base.base_ns) AS late_ns
    FROM graph.collective_match AS match
    INNER JOIN staging.kernel AS own ON match.kernel_id = own.kernel_id
    INNER JOIN staging.trace AS own_trace ON match.trace_id = own_trace.trace_id
    INNER JOIN staging.kernel AS reference
        ON match.reference_kernel_id = reference.kernel_id
    INNER JOIN staging.trace AS base ON reference.trace_id = base.trace_id
    WHERE match.trace_id IN (SELECT trace_id FROM staging.computing)
),

median AS (
    SELECT
        run_id,
        trace_id,
        reference_id,
        count(*) AS collective_count,
        quantile_disc(late_ns, 0.5) AS offset_ns
    FROM late
    GROUP BY ALL
),

pair AS (
    SELECT
        median.*,
        quantile_disc(abs(late_ns - offset_ns), 0.95) AS uncertainty_ns
    FROM median
    INNER JOIN late USING (run_id, trace_id, reference_id)
    GROUP BY ALL
),

-- Groups have their own references: from the run's first trace to those it shares a
-- group with, and on.
reached AS (
    SELECT
        run_id, min(trace_id) AS trace_id, 0::BIGINT AS level,
        0::BIGINT AS collective_count, 0::BIGINT AS offset_ns, 0::BIGINT AS uncertainty_ns
    FROM median
    GROUP BY run_id
    UNION
    SELECT
        pair.run_id,
        CASE WHEN is_forward THEN pair.trace_id ELSE pair.reference_id END,
        level + 1,
        pair.collective_count,
        reached.offset_ns + CASE WHEN is_forward THEN 1 ELSE -1 END * pair.offset_ns,
        reached.uncertainty_ns + pair.uncertainty_ns
    FROM reached
    CROSS JOIN (VALUES (true), (false)) AS direction (is_forward)
    INNER JOIN pair
        ON
            pair.trace_id <> pair.reference_id
            AND reached.trace_id
            = CASE WHEN is_forward THEN pair.reference_id ELSE pair.trace_id END
    WHERE level < 3
),

nearest AS (
    SELECT *
    FROM reached
    QUALIFY row_number() OVER (
        PARTITION BY trace_id ORDER BY level, uncertainty_ns, offset_ns
    ) = 1
)

SELECT
    trace_id,
    nearest.run_id,
    min(trace_id) OVER (PARTITION BY nearest.run_id),
    collective_count,
    offset_ns,
    uncertainty_ns,
    base_ns - CASE
        WHEN abs(offset_ns) > uncertainty_ns + 10_000 THEN offset_ns ELSE 0
    END
FROM nearest
INNER JOIN staging.trace USING (trace_id);
