-- Which steps lack GPU work? Profilers drop records when their buffers are full or a
-- recording starts; the launches are there, but not what they put on the device.
-- One row per step with launches, with the largest loss first.
-- Key: step_id.
-- Counts: graph.expected_launch.
CREATE VIEW question.lost_work (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step.
    step_id,
    -- Number of the step.
    step,
    -- Launches in the step, as in `graph.expected_launch`.
    launch_count,
    -- How many of them have no GPU work in the trace, or of a graph less than others.
    lost_launch_count,
    -- [1] Their share.
    lost_share,
    -- Whether this is more than in the best step of the trace, by a twentieth of the
    -- launches: the step's GPU time is then too short.
    is_partial
) AS
WITH
launch AS (
    SELECT unnest(step_ids) AS step_id, has_work
    FROM graph.expected_launch
    INNER JOIN staging.call AS call USING (call_id)
    ASOF INNER JOIN staging.step_stretch AS stretch
        ON call.trace_id = stretch.trace_id AND call.start_ns >= stretch.start_ns
)

SELECT
    run_id,
    step.trace_id,
    rank,
    step_id,
    step,
    count(*) AS launch_count,
    count(*) FILTER (NOT has_work) AS lost_launch_count,
    lost_launch_count / nullif(launch_count, 0) AS lost_share,
    lost_share >= min(lost_share) OVER (PARTITION BY step.trace_id) + 0.05
FROM launch
INNER JOIN staging.step AS step USING (step_id)
INNER JOIN staging.trace USING (run_id, trace_id)
GROUP BY run_id, step.trace_id, rank, step_id, step
ORDER BY lost_launch_count DESC, step.trace_id, step_id;
