-- Which ops cost the most host time around their launches, in steps or in traces without
-- steps?
-- One row per run and op name.
-- Key: run_id, name.
-- Counts: overhead.counted_span.
CREATE VIEW question.overhead_by_op (
    -- The run.
    run_id,
    -- Name of the top-level op.
    name,
    -- Number of times it ran in steps, or in traces without steps.
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
    span.run_id,
    op.name,
    count(DISTINCT op.op_id),
    sum(span.end_ns - span.start_ns) FILTER (type = 'T2')::BIGINT,
    sum(span.end_ns - span.start_ns) FILTER (type = 'T4')::BIGINT,
    sum(span.end_ns - span.start_ns) FILTER (type = 'T5')::BIGINT,
    sum(span.end_ns - span.start_ns) FILTER (type = 'T3')::BIGINT,
    sum(span.end_ns - span.start_ns) FILTER (type LIKE 'wait%')::BIGINT,
    sum(span.end_ns - span.start_ns)::BIGINT
FROM overhead.counted_span AS span
INNER JOIN staging.op ON span.op_id = op.op_id
GROUP BY span.run_id, op.name
ORDER BY span.run_id, sum(span.end_ns - span.start_ns) DESC, op.name;
