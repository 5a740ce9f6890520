-- How much slower could each rank be in a step before the run slows down? A step of a run
-- ends on the rank that finishes last (`critical_path.run_slack`). The others wait for a
-- rank without slack to its collectives; a rank with slack gains nothing by being faster
-- there. Runs whose ranks meet on the CPU are excluded.
-- One row per step of a rank of a run whose ranks meet in collectives on GPUs.
-- Key: step_id.
CREATE VIEW question.rank_slack (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- The step.
    step_id,
    -- Number of the step.
    step,
    -- [ns] How much later the rank could arrive at each of its collectives, at least; NULL
    -- without one in the step.
    arrival_slack_ns,
    -- [ns] How much longer it could take in the step, anywhere: the minimum slack of its
    -- nodes.
    slack_ns,
    -- [ns] Duration of its GPU work without slack, including the waiting time of
    -- collectives.
    critical_gpu_ns,
    -- [ns] Duration of all its GPU work that a step depends on.
    gpu_ns
) AS
WITH
arrival AS (
    SELECT step_id, min(slack_ns) AS slack_ns
    FROM critical_path.run_stretch_slack AS place
    INNER JOIN graph.node_step AS node_step ON -place.stretch = node_step.node_id
    -- The start of a collective on a stream.
    WHERE lane < 0 AND stretch < 0
    GROUP BY step_id
),

node AS (
    SELECT
        step_id,
        min(slack.slack_ns) AS slack_ns,
        sum(work.end_ns - work.start_ns) FILTER (slack.slack_ns = 0) AS critical_gpu_ns,
        sum(work.end_ns - work.start_ns) AS gpu_ns
    FROM critical_path.run_slack AS slack
    INNER JOIN graph.node_step AS node_step ON slack.node_id = node_step.node_id
    LEFT JOIN staging.gpu_op AS work ON slack.node_id = gpu_op_id
    WHERE slack.slack_ns IS NOT NULL
    GROUP BY step_id
)

SELECT
    step.run_id,
    step.trace_id,
    rank,
    step.step_id,
    step.step,
    arrival.slack_ns,
    node.slack_ns,
    coalesce(critical_gpu_ns, 0)::BIGINT,
    coalesce(gpu_ns, 0)::BIGINT
FROM staging.step AS step
INNER JOIN node ON step.step_id = node.step_id
INNER JOIN staging.trace AS trace ON step.trace_id = trace.trace_id
LEFT JOIN arrival ON step.step_id = arrival.step_id
ORDER BY step.run_id, step.step, rank, step.trace_id;
