-- Host time that scenarios insert before spans, and behind them: as part of what is before
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
)

SELECT
    variant_id,
    thread_id,
    position - is_behind::INTEGER,
    sum(CASE WHEN is_behind OR is_last THEN 0 ELSE host_ns END)::BIGINT,
    sum(CASE WHEN is_behind OR is_last THEN host_ns ELSE 0 END)::BIGINT
FROM placed
GROUP BY variant_id, thread_id, position - is_behind::INTEGER;
