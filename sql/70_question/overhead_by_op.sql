-- Which ops cost the most host time around their launches?
-- One row per run and op name.
-- Key: run_id, name.
CREATE VIEW question.overhead_by_op (
    -- The run.
    run_id,
    -- Name of the top-level op.
    name,
    -- Number of times it ran in steps.
    op_count,
    -- [ns] Time before its first launch.
    t2_ns,
    -- [ns] Time of its launches.
    t4_ns,
    -- [ns] Time between its launches, or all of it if it launches nothing.
    t5_ns,
    -- [ns] Time after its last launch.
    t3_ns,
    -- [ns] Time of waits on devices inside it, and of its part that fetches a batch.
    wait_ns,
    -- [ns] The total.
    time_ns
) AS
SELECT
    interval.run_id,
    op.name,
    count(DISTINCT op.op_id),
    sum(interval.end_ns - interval.start_ns) FILTER (type = 'T2')::BIGINT,
    sum(interval.end_ns - interval.start_ns) FILTER (type = 'T4')::BIGINT,
    sum(interval.end_ns - interval.start_ns) FILTER (type = 'T5')::BIGINT,
    sum(interval.end_ns - interval.start_ns) FILTER (type = 'T3')::BIGINT,
    sum(interval.end_ns - interval.start_ns) FILTER (type LIKE 'wait%')::BIGINT,
    sum(interval.end_ns - interval.start_ns)::BIGINT
FROM overhead.interval
INNER JOIN staging.op ON interval.op_id = op.op_id
GROUP BY interval.run_id, op.name
ORDER BY interval.run_id, sum(interval.end_ns - interval.start_ns) DESC, op.name;
