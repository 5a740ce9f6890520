-- Parts of one span of host time, where a step starts or ends within an op or call.
-- One row per part.
-- Key: thread_id, position.
CREATE TABLE overhead.divided_span (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the part on its thread.
    position,
    -- [1] The share of the whole before it.
    from_share,
    -- [1] The share of the whole up to its end.
    to_share
) AS
WITH
cut AS (
    SELECT DISTINCT trace_id, unnest([start_ns, end_ns]) AS at_ns FROM staging.step
),

-- Positions of which the next one continues the same.
going_on AS (
    SELECT part.thread_id, part.position
    FROM overhead.timeline AS part
    SEMI JOIN cut ON part.trace_id = cut.trace_id AND part.end_ns = at_ns
    INNER JOIN overhead.timeline AS following
        ON part.thread_id = following.thread_id AND part.position + 1 = following.position
    WHERE
        part.type = following.type
        AND part.op_id IS NOT DISTINCT FROM following.op_id
        AND part.call_id IS NOT DISTINCT FROM following.call_id
        AND coalesce(part.op_id, part.call_id) IS NOT NULL
),

whole AS (
    SELECT thread_id, min(position) AS first_position, max(position) + 1 AS last_position
    FROM (
        SELECT
            *, position - row_number() OVER (PARTITION BY thread_id ORDER BY position) AS chain
        FROM going_on
    )
    GROUP BY thread_id, chain
)

SELECT
    run_id,
    trace_id,
    thread_id,
    position,
    (start_ns - min(start_ns) OVER of_whole)
    / (max(end_ns) OVER of_whole - min(start_ns) OVER of_whole),
    (end_ns - min(start_ns) OVER of_whole)
    / (max(end_ns) OVER of_whole - min(start_ns) OVER of_whole)
FROM overhead.timeline
INNER JOIN whole USING (thread_id)
WHERE position BETWEEN first_position AND last_position
WINDOW of_whole AS (PARTITION BY thread_id, first_position);
