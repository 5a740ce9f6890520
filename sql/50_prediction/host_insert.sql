-- Host time that scenarios insert before spans, and behind them: launches, and ops
-- (`prediction.inserted_op`). It is part of what is before
-- or behind, so that the ends of steps that lie there tell of it.
-- One row per variant and span.
-- Key: variant_id, thread_id, position.
CREATE VIEW prediction.host_insert (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread.
    position,
    -- [ns] What is inserted before it.
    before_ns,
    -- [ns] What is inserted behind it.
    after_ns
) AS
WITH
placed AS (
    SELECT
        variant_id,
        launch_thread_id AS thread_id,
        launch_position AS position,
        host_ns,
        -- Behind a call that waits it is before what follows.
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
