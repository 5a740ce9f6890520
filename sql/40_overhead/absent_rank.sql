-- How long collectives last in steps that have ranks that were not recorded, or with which
-- they are not matched (`graph.collective_match`): they may wait for these.
-- One row per run with such collectives in steps.
-- Key: run_id.
CREATE VIEW overhead.absent_rank (
    -- The run.
    run_id,
    -- [ns] Mean time of such collectives in a step of a rank.
    collective_ns,
    -- [ns] Mean time of a step.
    step_ns
) AS
WITH
lasting AS (
    SELECT step_id, sum(apart.end_ns - apart.start_ns) AS time_ns
    FROM staging.collective AS apart
    LEFT JOIN graph.collective USING (node_id)
    ASOF INNER JOIN staging.step AS step
        ON apart.trace_id = step.trace_id AND apart.start_ns >= step.start_ns
    WHERE apart.start_ns < step.end_ns AND coalesce(present_count, 1) < apart.group_size
    GROUP BY step_id
)

SELECT
    run_id,
    (sum(time_ns) / count(*))::BIGINT,
    avg(end_ns - start_ns)::BIGINT
FROM staging.step
LEFT JOIN lasting USING (step_id)
GROUP BY run_id
HAVING count(time_ns) > 0;
