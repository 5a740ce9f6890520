-- How much later could each op, call and GPU op end without delaying the end of a step? By
-- the measured causes, up to the end of the step's mark on the host
-- (`critical_path.slack`); without steps, up to the end of the trace. That is for each rank
-- alone; next to it is the slack up to the end of the run's step, if ranks meet in
-- collectives on GPUs. The smallest slack comes first, and among equal ones the longest
-- node: nodes with slack 0 are on a critical path, and shortening them may shorten the
-- step.
-- One row per op, call and GPU op.
-- Key: node_id.
CREATE VIEW question.slack (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- The step of the node, as in `graph.node_step`; NULL without one.
    step_id,
    -- Number of the step.
    step,
    -- [ns] Slack; NULL if no step depends on the node.
    slack_ns,
    -- [ns] Slack up to the end of the run's step, on its last rank
    -- (`critical_path.run_slack`); NULL if ranks do not meet on GPUs.
    run_slack_ns,
    -- [ns] Duration.
    duration_ns,
    -- [ns] Start, from the start of the step; without one, of the trace.
    offset_ns,
    -- Kind of the node, as in `graph.node`.
    kind,
    -- Name.
    name,
    -- Name of the enclosing op; for GPU work, the op around its launch; NULL for ops.
    op,
    -- Role and number of the host thread, or device and stream.
    lane,
    -- The op, call or GPU op.
    node_id
) AS
WITH
first AS (
    SELECT trace_id, min(start_ns) AS start_ns FROM graph.node GROUP BY trace_id
)

SELECT
    node.trace_id,
    rank,
    step.step_id,
    step.step,
    slack.slack_ns,
    in_run.slack_ns,
    node.end_ns - node.start_ns AS duration_ns,
    node.start_ns - coalesce(step.start_ns, first.start_ns),
    kind,
    node.name,
    CASE WHEN op_id <> node.node_id THEN op_name END,
    CASE
        WHEN node.thread_id IS NULL THEN format('device {} stream {}', device, node.stream)
        ELSE format('{} thread {}', role, tid)
    END,
    node.node_id
FROM critical_path.slack AS slack
INNER JOIN graph.node AS node ON slack.node_id = node.node_id
INNER JOIN graph.node_op AS node_op ON slack.node_id = node_op.node_id
INNER JOIN staging.trace AS trace ON slack.trace_id = trace.trace_id
INNER JOIN first ON slack.trace_id = first.trace_id
LEFT JOIN critical_path.run_slack AS in_run ON slack.node_id = in_run.node_id
LEFT JOIN graph.node_step AS node_step ON slack.node_id = node_step.node_id
LEFT JOIN staging.step AS step ON node_step.step_id = step.step_id
LEFT JOIN staging.thread AS thread ON node.thread_id = thread.thread_id
ORDER BY slack.slack_ns NULLS LAST, duration_ns DESC, node.node_id;
