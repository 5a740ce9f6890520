-- How far can the answers about a run be trusted? What may be missing from the recording,
-- what was repaired during ingest, and what was inferred rather than recorded. Of a rank or
-- trace, `clock`, `absent_rank` and `repeated_rank` are those of its run.
-- One row per run and aspect, even if nothing is wrong.
-- Key: run_id, aspect.
-- Counts: question.recording, staging.ingest_issue, graph.expected_launch, graph.host_wait,
-- critical_path.measured_interval, overhead.recording_cost, graph.recorded_work,
-- graph.contradiction, staging.device.
CREATE VIEW question.trust (
    -- The run.
    run_id,
    -- `repaired` (places in the files that were repaired or dropped), `lost_work` (launches
    -- whose work is not in the trace), `lost_launch` (work whose launch is not),
    -- `overlapping` (GPU ops that start before the previous one on their stream ends),
    -- `inferred_wait` (synchronising calls for which the trace does not record what they
    -- wait for; not copies), `unexplained` (time on critical paths without a cause in the
    -- trace: none was found, or it is before the trace), `profiler` (what recording the
    -- events of ops, calls and Python functions may have cost), `overflow` (pauses of the
    -- profiler itself, such as flushing full buffers), `clock` (differences between the
    -- clocks of ranks, corrected as far as collectives allow) or `absent_rank` (ranks of the
    -- job that are not in the run). Only if there are any: `estimated` (traces that never ran),
    -- `overrun` (GPU ops whose recorded ends are too late), `gpu_clock` (GPUs whose clocks
    -- differ from the host's), `early_work` (GPU ops that still start before their launch
    -- does), `early_return` (waits that return while the GPU still works), `untimed` (GPU ops
    -- that take no time), `untimed_op` (ops that do, unlike others of their name), `cut_step`
    -- (steps in which the recording ended: no mean has them), `lost_step` (steps without a
    -- mark between others), `assumed_rank` (traces whose rank follows from the order of
    -- processes), `repeated_rank` (traces whose rank another one of the run has) or
    -- `assumed_gpu` (GPUs whose model follows from their properties).
    aspect,
    -- Number of such cases; for `clock`, ranks whose order could be different.
    occurrences,
    -- Total number; NULL if not applicable.
    all_count,
    -- [ns] Their time; NULL if not applicable. For clocks, `early_work` and `early_return`,
    -- the largest offset.
    time_ns,
    -- [1] Its share of all such time; for `profiler` and `overflow`, of the recorded time.
    time_share
) AS
WITH
run AS (
    SELECT run_id, sum(duration_ns) AS duration_ns
    FROM question.recording
    GROUP BY run_id
),

-- All ranks, whichever are counted.
whole AS (
    SELECT run_id, count(*) AS trace_count, count(rank) - count(DISTINCT rank) AS again_count,
        max(world_size) AS world_size
    FROM staging.trace
    INNER JOIN staging.recording USING (trace_id)
    GROUP BY run_id
),

wait AS (
    SELECT
        run_id,
        count(*) AS all_count,
        sum(end_ns - start_ns) AS time_ns,
        count(*) FILTER (NOT recorded) AS inferred_count,
        sum(end_ns - start_ns) FILTER (NOT recorded) AS inferred_ns
    FROM graph.host_wait
    WHERE is_blocked AND target NOT IN ('copy', 'queue')
    GROUP BY run_id
),

path AS (
    SELECT
        run_id,
        count(*) AS all_count,
        sum(end_ns - start_ns) AS time_ns,
        count(*) FILTER (lever = 'unexplained') AS unexplained_count,
        sum(end_ns - start_ns) FILTER (lever = 'unexplained') AS unexplained_ns
    FROM (SELECT *, critical_path.lever(kind) AS lever FROM critical_path.measured_interval)
    WHERE critical_path.bounds_period(scope, trace_id)
    GROUP BY run_id
),

recorded AS (
    SELECT run_id, count(*) AS all_count, count(*) FILTER (is_estimated) AS estimated_count,
        count(rank_assumed_from) AS assumed_count,
        sum(overhead_count) AS pause_count, sum(overhead_ns) AS time_ns
    FROM staging.recording
    INNER JOIN question.recording USING (trace_id)
    GROUP BY run_id
),

found AS (
    SELECT run.run_id, 1 AS place, 'repaired' AS aspect, sum(occurrences) AS occurrences,
        NULL AS all_count, NULL AS time_ns, NULL AS all_ns
    FROM run
    LEFT JOIN staging.ingest_issue AS issue ON run.run_id = issue.run_id AND NOT is_note
    GROUP BY run.run_id
    UNION ALL
    SELECT run_id, 2, 'lost_work', count(*) FILTER (NOT has_work), count(*), NULL, NULL
    FROM graph.expected_launch
    GROUP BY run_id
    UNION ALL
    SELECT
        run_id,
        unnest([3, 4]),
        unnest(['lost_launch', 'overlapping']),
        unnest([sum(lost_count), sum(overlap_count)]),
        sum(all_count),
        unnest([sum(lost_ns), sum(overlap_ns)]),
        sum(time_ns)
    FROM graph.recorded_work
    GROUP BY run_id
    UNION ALL
    SELECT
        run_id,
        coalesce(list_position(['overrun', 'gpu_clock', 'early_work'], aspect) + 4, 17),
        aspect,
        sum(occurrences),
        sum(all_count),
        CASE aspect WHEN 'overrun' THEN sum(time_ns) ELSE max(time_ns) END,
        NULL
    FROM graph.contradiction
    GROUP BY run_id, aspect
    UNION ALL
    SELECT run_id, 8, 'inferred_wait', inferred_count, all_count, coalesce(inferred_ns, 0),
        time_ns
    FROM wait
    UNION ALL
    SELECT run_id, 9, 'unexplained', unexplained_count, all_count,
        coalesce(unexplained_ns, 0), time_ns
    FROM path
    UNION ALL
    SELECT run_id, 10, 'profiler', sum(event_count), NULL, sum(time_ns), any_value(duration_ns)
    FROM overhead.recording_cost
    INNER JOIN run USING (run_id)
    GROUP BY run_id
    UNION ALL
    SELECT run_id, 11, 'overflow', pause_count, NULL, recorded.time_ns, duration_ns
    FROM recorded
    INNER JOIN run USING (run_id)
    UNION ALL
    SELECT run_id, 12, 'clock', count(*) FILTER (is_ambiguous), count(*),
        max(abs(offset_ns)), NULL
    FROM graph.clock
    GROUP BY run_id
    UNION ALL
    SELECT run_id, 13, 'absent_rank', greatest(world_size - trace_count + again_count, 0),
        world_size, NULL, NULL
    FROM whole
    WHERE world_size IS NOT NULL
    UNION ALL
    SELECT run_id, 15, 'repeated_rank', again_count, trace_count, NULL, NULL FROM whole
    UNION ALL
    SELECT run_id, 16, 'assumed_gpu', count(*) FILTER (is_assumed), count(*), NULL, NULL
    FROM staging.device
    WHERE gpu_op_count > 0
    GROUP BY run_id
    UNION ALL
    SELECT run_id, unnest([0, 14]), unnest(['estimated', 'assumed_rank']),
        unnest([estimated_count, assumed_count]), all_count, NULL, NULL
    FROM recorded
)

SELECT
    run_id,
    aspect,
    coalesce(occurrences, 0)::BIGINT,
    all_count::BIGINT,
    time_ns::BIGINT,
    time_ns / nullif(all_ns, 0)
FROM found
SEMI JOIN run USING (run_id)
WHERE
    occurrences > 0
    OR aspect NOT IN (
        'estimated', 'assumed_rank', 'repeated_rank', 'assumed_gpu'
    )
ORDER BY run_id, place, aspect;
