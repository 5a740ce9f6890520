-- How long do steps take, and how much do they vary? The measured period of each step
-- (`critical_path.step_period`).
-- One row per trace with steps.
-- Key: trace_id.
-- Counts: critical_path.step_period.
CREATE VIEW question.period (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Steps, as in `staging.whole_step`. The period of one whose GPU work ends before that of
    -- the step before is 0.
    step_count,
    -- [ns] Median of their periods.
    median_ns,
    -- [ns] Mean.
    mean_ns,
    -- [ns] The shortest time.
    shortest_ns,
    -- [ns] The longest time.
    longest_ns,
    -- Number of the longest step.
    longest_step,
    -- [1] Interquartile range divided by the median; NULL for fewer than four steps.
    spread_share,
    -- [ns] Median time of the host alone, from the start to the end of the mark.
    host_ns
) AS
SELECT
    period.run_id,
    period.trace_id,
    rank,
    count(*),
    median(period.end_ns - period.start_ns)::BIGINT AS median_ns,
    round(avg(period.end_ns - period.start_ns))::BIGINT,
    min(period.end_ns - period.start_ns),
    max(period.end_ns - period.start_ns),
    arg_max(step, (period.end_ns - period.start_ns, -step)),
    CASE
        WHEN count(*) >= 4 THEN
            (
                quantile_cont(period.end_ns - period.start_ns, 0.75)
                - quantile_cont(period.end_ns - period.start_ns, 0.25)
            ) / nullif(median_ns, 0)
    END,
    median(period.host_end_ns - period.host_start_ns)::BIGINT
FROM critical_path.step_period AS period
INNER JOIN staging.step AS step USING (step_id)
INNER JOIN staging.trace AS trace ON period.trace_id = trace.trace_id
SEMI JOIN staging.whole_step AS whole ON period.step_id = whole.step_id
WHERE variant_id = 0
GROUP BY period.run_id, period.trace_id, rank
ORDER BY period.run_id, rank, period.trace_id;
