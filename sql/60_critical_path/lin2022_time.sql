-- The algorithm of Lin et al. 2022 (sections 3 and 4), as published: all top-level ops of a
-- step one after another on one host thread, means by type and name without outliers (1.5
-- times the interquartile range), two streams, one of them for collectives, which wait for
-- all earlier work; the host never waits. A step starts with empty streams and lasts until
-- the host and both streams have finished: its period. Kernel times are as measured.
-- One row per method and step.
-- Key: method, step_id.
CREATE VIEW critical_path.lin2022_time (
    -- `lin2022`: with its constants, minus 2 us per profiled host event, 4 us per launch,
    -- plus 5 us per kernel; `lin2022_as_profiled`: launches as measured, nothing subtracted
    -- or added.
    method,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Step.
    step_id,
    -- [ns] Predicted period.
    predicted_ns,
    -- [ns] Predicted host time.
    host_ns,
    -- [ns] Predicted end of the GPU work, from the start of the step; NULL without any.
    gpu_end_ns
) AS
WITH
constant AS (
    SELECT known.*
    FROM (
        VALUES
        ('lin2022', 2_000, 4_000, 5_000),
        ('lin2022_as_profiled', 0, NULL, 0)
    ) AS known (method, event_ns, launch_ns, kernel_ns)
    SEMI JOIN prediction.variant USING (method)
),

-- Ops recorded within a span.
nested AS (
    SELECT span.thread_id, span.position, count(*) AS op_count
    FROM staging.op AS op
    ASOF INNER JOIN overhead.timeline AS span
        ON op.thread_id = span.thread_id AND op.start_ns >= span.start_ns
    WHERE NOT is_top_level AND NOT is_annotation
    GROUP BY ALL
),

span AS (
    SELECT
        method,
        sample.* EXCLUDE (name),
        CASE sample.type WHEN 'T1' THEN '' ELSE name END AS name,
        timeline.start_ns,
        timeline.call_id,
        timeline.op_id,
        CASE
            WHEN sample.type = 'T4' THEN coalesce(launch_ns, sample_ns)
            WHEN sample.type = 'T1' THEN sample_ns - event_ns
            ELSE greatest(sample_ns - event_ns * coalesce(op_count, 0), 0)
        END AS clean_ns,
        kernel_ns
    FROM overhead.sample AS sample
    CROSS JOIN constant
    INNER JOIN overhead.timeline USING (thread_id, position)
    LEFT JOIN nested USING (thread_id, position)
    WHERE
        sample.type LIKE 'T_'
        AND (sample.type <> 'T1' OR sample_ns BETWEEN 2_000 AND 200_000)
),

with_quartiles AS (
    SELECT
        *,
        quantile_cont(clean_ns, 0.25) OVER alike AS first_quartile_ns,
        quantile_cont(clean_ns, 0.75) OVER alike AS third_quartile_ns
    FROM span
    WINDOW alike AS (PARTITION BY method, run_id, type, name)
),

mean AS (
    SELECT method, run_id, type, name, avg(clean_ns) AS mean_ns
    FROM with_quartiles
    WHERE
        abs(clean_ns - (first_quartile_ns + third_quartile_ns) / 2)
        <= 2 * (third_quartile_ns - first_quartile_ns)
    GROUP BY ALL
),

-- The host: before each op the mean gap, then its spans.
walked AS (
    SELECT
        span.*,
        coalesce(mean.mean_ns, 0) + CASE
            WHEN row_number() OVER of_op = 1 AND op_id IS NOT NULL
                THEN coalesce(gap.mean_ns, 0)
            ELSE 0
        END AS time_ns
    FROM span
    LEFT JOIN mean USING (method, run_id, type, name)
    LEFT JOIN mean AS gap
        ON span.method = gap.method AND span.run_id = gap.run_id AND gap.type = 'T1'
    WHERE span.type <> 'T1'
    WINDOW of_op AS (PARTITION BY span.method, step_id, op_id ORDER BY span.start_ns)
),

host AS (
    SELECT
        *,
        sum(time_ns) OVER (
            PARTITION BY method, step_id ORDER BY start_ns, thread_id, position
        ) AS end_ns
    FROM walked
),

-- Work on a stream starts 1 us after the previous work, or when its launch ends: with a as
-- the sum of all durations and gaps so far, end = a + max(launched - a before).
work AS (
    SELECT
        host.method,
        host.step_id,
        is_collective,
        gpu_op_id,
        host.end_ns AS launched_ns,
        gpu_op.end_ns - gpu_op.start_ns + kernel_ns + 1_000 AS work_ns,
        sum(work_ns) OVER (
            PARTITION BY host.method, host.step_id, is_collective
            ORDER BY host.start_ns, gpu_op.start_ns, gpu_op_id
        ) AS sum_ns
    FROM host
    INNER JOIN staging.gpu_op USING (call_id)
    WHERE host.type = 'T4'
),

computed AS (
    SELECT
        *,
        CASE
            WHEN NOT is_collective
                THEN sum_ns + max(launched_ns - (sum_ns - work_ns)) OVER (
                    PARTITION BY method, step_id, is_collective ORDER BY sum_ns, gpu_op_id
                )
        END AS end_ns
    FROM work
),

ready AS (
    SELECT
        *,
        greatest(
            launched_ns,
            max(end_ns) OVER (PARTITION BY method, step_id ORDER BY launched_ns, gpu_op_id)
        ) AS ready_ns
    FROM computed
),

ended AS (
    SELECT method, step_id, true AS is_host, max(end_ns) AS end_ns FROM host GROUP BY ALL
    UNION ALL
    SELECT
        method,
        step_id,
        false,
        coalesce(
            end_ns,
            sum_ns + max(ready_ns - (sum_ns - work_ns)) OVER (
                PARTITION BY method, step_id, is_collective ORDER BY sum_ns, gpu_op_id
            )
        ) - 1_000
    FROM ready
)

SELECT
    method, step.run_id, step.trace_id, step_id,
    round(max(ended.end_ns))::BIGINT,
    round(max(ended.end_ns) FILTER (is_host))::BIGINT,
    round(max(ended.end_ns) FILTER (NOT is_host))::BIGINT
FROM ended
INNER JOIN staging.step AS step USING (step_id)
GROUP BY ALL;
