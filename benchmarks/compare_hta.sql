-- HTA's path beside tracedb's: part by part, over the tables `hta_edge` (the edges of
-- HTA's path in order, times of their ends as tracedb has them), `ours` (the intervals of
-- tracedb's path) and `this_step`.

-- The step as HTA's path has it. Edges follow each other in time; where one begins before
-- the one before it ended, it counts from there. `said` is what HTA makes of that time:
-- what bounds it, or for weight 0 why nothing is counted.
CREATE OR REPLACE TEMP TABLE theirs AS
WITH
edge AS (
    SELECT
        hta_edge.*,
        thread_id,
        greatest(
            source_ns,
            max(target_ns) OVER (
                ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS start_ns
    FROM hta_edge
    LEFT JOIN staging.host_event AS event ON source_id = event.event_id
    LEFT JOIN staging.thread USING (trace_id, pid, tid)
)

SELECT
    edge.start_ns,
    target_ns AS end_ns,
    owner_id AS node_id,
    edge.thread_id,
    CASE
        WHEN weight_ns > 0 AND bound_by = 'cpu_bound' AND call.target = 'memcpy'
            THEN 'cpu_bound, copy call'
        WHEN weight_ns > 0 AND bound_by = 'cpu_bound' AND call.kind = 'wait'
            THEN 'cpu_bound, wait call'
        WHEN weight_ns > 0 AND bound_by = 'cpu_bound' AND call.kind = 'launch'
            THEN 'cpu_bound, launch call'
        WHEN weight_ns > 0 AND bound_by = 'cpu_bound' THEN 'cpu_bound, the rest'
        WHEN weight_ns > 0 THEN bound_by
        WHEN edge.type = 'DEPENDENCY' AND target_is_start THEN 'weight 0, between ops'
        WHEN edge.type = 'DEPENDENCY' THEN 'weight 0, runtime lock'
        WHEN edge.type = 'OPERATOR_KERNEL' THEN 'weight 0, blocking call'
        WHEN edge.type = 'SYNC_DEPENDENCY' THEN 'weight 0, sync'
        ELSE 'weight 0, launch to kernel'
    END AS said
FROM edge
LEFT JOIN staging.call AS call ON owner_id = call_id
WHERE target_ns > edge.start_ns
UNION ALL
SELECT any_value(step.start_ns), min(source_ns), NULL, NULL, 'not on the path, before it'
FROM hta_edge CROSS JOIN this_step AS step
UNION ALL
SELECT max(target_ns), any_value(step.end_ns), NULL, NULL, 'not on the path, after it'
FROM hta_edge CROSS JOIN this_step AS step;

-- Each part of the step on both paths, and in which of the page's columns it is.
CREATE OR REPLACE TEMP TABLE stretch AS
SELECT
    said,
    kind,
    (least(ours.end_ns, theirs.end_ns) - greatest(ours.start_ns, theirs.start_ns))::BIGINT
    AS time_ns,
    CASE
        WHEN said LIKE 'not on%' THEN 'outside'
        WHEN
            said LIKE '%between ops'
            AND (
                kind IN ('host_gap', 'data_loading') OR ours.thread_id = theirs.thread_id
            )
            THEN 'gap'
        WHEN said LIKE '%between ops' OR said LIKE '%runtime lock' THEN 'elsewhere'
        WHEN said LIKE '%launch to kernel' THEN 'launching'
        WHEN said LIKE 'weight 0%' THEN 'blocked'
        WHEN
            said IN ('cpu_bound, copy call', 'cpu_bound, wait call') AND kind <> 'launch'
            THEN 'called'
        WHEN said LIKE 'cpu_bound%' AND ours.thread_id IS NULL THEN 'device'
        WHEN said LIKE 'cpu_bound%' AND ours.thread_id <> theirs.thread_id THEN 'elsewhere'
        WHEN said LIKE 'gpu%' AND ours.thread_id IS NOT NULL THEN 'host'
        WHEN
            said IN ('gpu_compute_bound', 'gpu_communication_bound')
            AND ours.node_id <> theirs.node_id
            THEN 'other'
        WHEN
            said = 'gpu_kernel_kernel_overhead' AND kind NOT IN ('stream_gap', 'stream_wait')
            THEN 'other'
        ELSE 'same'
    END AS category
FROM ours
INNER JOIN theirs ON ours.start_ns < theirs.end_ns AND theirs.start_ns < ours.end_ns;

-- GPU work on either path, with its time there.
CREATE OR REPLACE TEMP TABLE on_path AS
WITH
our_work AS (
    SELECT node_id, sum(end_ns - start_ns) AS our_ns
    FROM ours
    WHERE kind IN ('kernel', 'communication', 'memcpy', 'memset')
    GROUP BY node_id
),

their_work AS (
    SELECT node_id, sum(end_ns - start_ns) AS their_ns
    FROM theirs
    WHERE said IN ('gpu_compute_bound', 'gpu_communication_bound')
    GROUP BY node_id
)

SELECT node_id, our_ns, their_ns
FROM our_work
FULL JOIN their_work USING (node_id);

-- Launches of the step that lasted 50 us and more: how much work their stream still had to
-- do when they began, and how long after the end of what ran then they returned.
CREATE OR REPLACE TEMP TABLE long_launch AS
SELECT
    work.launch_end_ns - work.launch_start_ns AS time_ns,
    work.position - running.position AS queued,
    work.launch_end_ns - running.end_ns AS after_ns
FROM graph.stream_position AS work
INNER JOIN this_step AS step
    ON
        work.launch_start_ns >= step.start_ns
        AND work.launch_end_ns <= step.end_ns
        AND work.launch_end_ns - work.launch_start_ns >= 50_000
ASOF INNER JOIN graph.stream_position AS running
    ON
        work.trace_id = running.trace_id
        AND work.device = running.device
        AND work.stream = running.stream
        AND work.launch_start_ns < running.end_ns;
