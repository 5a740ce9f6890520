-- The clock of each rank compared with that of the run's first rank: collectives end at the
-- same time on all ranks, whatever their clocks show. If two ranks only send to each other,
-- and ends differ by various times, sends did not wait, but no receive ends before its send:
-- of the offsets that this allows, the one nearest to the recorded clocks counts. On CPUs, a
-- rank notices the end of a collective when it gets a core: the recorded clocks count, unless
-- by these a collective ended before all ranks had started it (`staging.meets_all_ranks`), or
-- a message was received before it was sent; then, the middle of what messages allow.
-- One row per trace of a run whose collectives are matched.
-- Key: trace_id.
CREATE TABLE graph.clock (
    -- The trace.
    trace_id,
    -- The run.
    run_id,
    -- The trace whose clock is the run's, or that of the ranks that communicate with this one.
    reference_trace_id,
    -- Collectives used for the comparison.
    collective_count,
    -- [ns] Median of how much later they end by this clock than on the reference; for
    -- messages, how much later they may end.
    offset_ns,
    -- [ns] 95th percentile of the deviation of single collectives from the offset; for
    -- messages and on CPUs, of how much earlier they would end than they can.
    uncertainty_ns,
    -- Whether the order of collectives could be different: the offset may then be wrong by
    -- a multiple of their period.
    is_ambiguous,
    -- [ns] Offset to add to times of this trace to get times since 1970 by the run's clock:
    -- its time base, minus the clock offset if that is more than its uncertainty and 10 us.
    shift_ns
) AS
WITH RECURSIVE
late AS (
    SELECT
        match.run_id,
        match.trace_id,
        base_op.trace_id AS reference_id,
        is_ambiguous,
        own.sender IS NOT NULL OR own.kind IN ('send', 'recv') AS is_message,
        own.is_on_cpu,
        own_trace.base_ns - base.base_ns AS apart_ns,
        own.end_ns - base_op.end_ns + apart_ns AS late_ns,
        -- All ranks of some collectives have started before one ends, and a send by Gloo
        -- ends after its receive has started; any message is sent before it is received. A
        -- send on a GPU ends before its receive does, too.
        own.is_on_cpu AND (
            staging.meets_all_ranks(own.kind)
            OR is_message AND own.process_group LIKE 'gloo%'
        ) AS is_mutual,
        CASE
            WHEN is_mutual OR own.is_on_cpu AND is_message AND own.kind = 'send'
                THEN own.start_ns - base_op.end_ns + apart_ns
            WHEN is_message AND own.kind = 'send' THEN late_ns
        END AS lowest_ns,
        CASE
            WHEN is_mutual OR own.is_on_cpu AND is_message AND own.kind = 'recv'
                THEN own.end_ns - base_op.start_ns + apart_ns
            WHEN is_message AND own.kind = 'recv' THEN late_ns
        END AS highest_ns
    FROM graph.collective_match AS match
    INNER JOIN staging.collective AS own ON match.node_id = own.node_id
    INNER JOIN staging.trace AS own_trace ON match.trace_id = own_trace.trace_id
    INNER JOIN staging.collective AS base_op ON match.reference_node_id = base_op.node_id
    INNER JOIN staging.trace AS base ON base_op.trace_id = base.trace_id
    WHERE
        match.trace_id IN (SELECT trace_id FROM staging.computing)
        AND own.has_ended AND base_op.has_ended
),

median AS (
    SELECT
        run_id,
        trace_id,
        reference_id,
        count(*) AS collective_count,
        quantile_disc(lowest_ns, 0.98) AS least_ns,
        quantile_disc(highest_ns, 0.02) AS most_ns,
        CASE
            WHEN bool_and(is_on_cpu) AND coalesce(least_ns, 0) <= 0 AND coalesce(most_ns, 0) >= 0
                THEN 0
            WHEN NOT bool_and(is_message)
                THEN quantile_disc(late_ns, 0.5) FILTER (NOT is_message)
            WHEN
                least_ns > most_ns
                OR quantile_disc(late_ns, 0.9) - quantile_disc(late_ns, 0.1) <= 20_000
                THEN quantile_disc(late_ns, 0.5)
            WHEN bool_and(is_mutual) THEN least_ns + (most_ns - least_ns) // 2
            ELSE greatest(least(0, most_ns), least_ns)
        END AS offset_ns,
        bool_and(is_ambiguous) AS is_ambiguous
    FROM late
    GROUP BY run_id, trace_id, reference_id
),

pair AS (
    SELECT
        median.* EXCLUDE (least_ns, most_ns),
        quantile_disc(
            CASE
                WHEN is_message OR is_mutual
                    THEN greatest(
                        coalesce(lowest_ns - offset_ns, 0),
                        coalesce(offset_ns - highest_ns, 0),
                        0
                    )
                ELSE abs(late_ns - offset_ns)
            END, 0.95
        ) AS uncertainty_ns
    FROM median
    INNER JOIN (SELECT * EXCLUDE (is_ambiguous) FROM late) AS late
        USING (run_id, trace_id, reference_id)
    GROUP BY ALL
),

-- Groups have their own references: from each trace to those that share a group with it,
-- and so on, each from the first trace that can be reached, by the fewest groups.
reached (
    trace_id, run_id, root_id, level, collective_count, offset_ns, uncertainty_ns,
    is_ambiguous
) USING KEY (
    trace_id,
    any_value(run_id),
    arg_min(root_id, (root_id, level)),
    arg_min(level, (root_id, level)),
    arg_min(collective_count, (root_id, level)),
    arg_min(offset_ns, (root_id, level)),
    arg_min(uncertainty_ns, (root_id, level)),
    arg_min(is_ambiguous, (root_id, level))
) AS (
    SELECT DISTINCT
        trace_id, run_id, trace_id, 0::BIGINT, 0::BIGINT, 0::BIGINT, 0::BIGINT, false
    FROM median
    UNION
    SELECT
        CASE WHEN is_forward THEN pair.trace_id ELSE pair.reference_id END AS trace_id,
        pair.run_id,
        root_id,
        level + 1,
        pair.collective_count,
        reached.offset_ns + CASE WHEN is_forward THEN 1 ELSE -1 END * pair.offset_ns,
        reached.uncertainty_ns + pair.uncertainty_ns,
        reached.is_ambiguous OR pair.is_ambiguous
    FROM reached
    CROSS JOIN (VALUES (true), (false)) AS direction (is_forward)
    INNER JOIN pair
        ON
            pair.trace_id <> pair.reference_id
            AND reached.trace_id
            = CASE WHEN is_forward THEN pair.reference_id ELSE pair.trace_id END
            AND root_id < CASE WHEN is_forward THEN pair.trace_id ELSE pair.reference_id END
    QUALIFY row_number() OVER (
        PARTITION BY CASE WHEN is_forward THEN pair.trace_id ELSE pair.reference_id END
        ORDER BY root_id, level, pair.uncertainty_ns, pair.trace_id, pair.reference_id
    ) = 1
)

SELECT
    trace_id,
    reached.run_id,
    root_id,
    collective_count,
    offset_ns,
    uncertainty_ns,
    is_ambiguous,
    base_ns - CASE
        WHEN abs(offset_ns) > uncertainty_ns + 10_000 THEN offset_ns ELSE 0
    END
FROM reached
INNER JOIN staging.trace USING (trace_id);
