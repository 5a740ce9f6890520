-- Host time that scenarios insert before and after spans: launches, and ops
-- (`prediction.inserted_op`). It is part of what is before or after, so the ends of steps
-- there include it.
-- One row per variant and span.
-- Key: variant_id, thread_id, position.
CREATE VIEW prediction.host_insert (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] Time inserted before it.
    before_ns,
    -- [ns] Time inserted after it.
    after_ns
) AS
WITH
placed AS (
    SELECT
        variant_id,
        launch_thread_id AS thread_id,
        launch_position AS position,
        host_ns,
        -- After a blocking call, it comes before what follows.
        is_after AND launch_back_ns < 0 AS is_last,
        is_after AND NOT is_last AND before.type NOT LIKE 'wait_%' AS is_behind
    FROM prediction.inserted_work
    LEFT JOIN overhead.timeline AS before
        ON
            launch_thread_id = before.thread_id
            AND launch_position - 1 = before.position
    WHERE launch_position IS NOT NULL
),

inserted AS (
    SELECT
        variant_id,
        thread_id,
        position - is_behind::INTEGER AS position,
        is_behind OR is_last AS is_after,
        host_ns
    FROM placed
    UNION ALL
    SELECT variant_id, thread_id, position, is_behind, host_ns
    FROM prediction.inserted_op
    INNER JOIN prediction.variant USING (scenario)
)

SELECT
    variant_id,
    thread_id,
    position,
    sum(CASE WHEN is_after THEN 0 ELSE host_ns END)::BIGINT,
    sum(CASE WHEN is_after THEN host_ns ELSE 0 END)::BIGINT
FROM inserted
GROUP BY variant_id, thread_id, position;
