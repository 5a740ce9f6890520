-- Operations of similar steps, with the time of each by itself: for communication, the time
-- from when the last of its peers started it; the time before is waiting for them.
-- One row per operation.
-- Key: operation_id.
CREATE TABLE graph.operation (
    -- The operation.
    operation_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Number of the step.
    step,
    -- The first of the operations that form one with it: a send and its receive, a
    -- collective. NULL if it is alone.
    group_id,
    -- The one of them that started last; NULL if it is alone.
    last_operation_id,
    -- [ns] Its time once all of its peers have arrived. Clocks of ranks differ: it can be
    -- below 0, and is 0 if the end is more than 10 ms before the last start.
    own_ns
) AS
WITH
-- What peers have in common, apart from run and step; NULL in what they may differ in.
placed AS (
    SELECT
        operation.*,
        CASE WHEN peers <> 'pair' THEN peers WHEN sender IS NOT NULL THEN peers END
        AS peers,
        CASE WHEN peers IN ('pair', 'ends') THEN dp_rank END AS group_dp_rank,
        CASE peers WHEN 'pair' THEN sender WHEN 'stage' THEN operation.stage END
        AS group_stage,
        CASE peers WHEN 'pair' THEN operation_type.direction ELSE operation.type END
        AS group_type,
        CASE peers WHEN 'pair' THEN number ELSE operation.ordinal END AS group_number,
        min(stage) OVER in_run AS first_stage,
        max(stage) OVER in_run AS last_stage
    FROM staging.operation
    INNER JOIN graph.pipeline_step USING (run_id, step)
    INNER JOIN staging.operation_type USING (type)
    LEFT JOIN graph.pipeline_transfer AS transfer USING (run_id, stage, type, ordinal)
    WHERE is_alike
    WINDOW in_run AS (PARTITION BY run_id)
),

grouped AS (
    SELECT
        *,
        peers IS NOT NULL
        AND (peers <> 'ends' OR stage IN (first_stage, last_stage)) AS has_peers,
        min(operation_id) OVER peer AS group_id,
        max(start_ns) OVER peer AS last_start_ns,
        max_by(operation_id, start_ns) OVER peer AS last_operation_id
    FROM placed
    WINDOW
        peer AS (
            PARTITION BY
                run_id, step, peers, group_dp_rank, group_stage, group_type, group_number
        )
)

SELECT
    operation_id,
    run_id,
    trace_id,
    step,
    CASE WHEN has_peers THEN group_id END,
    CASE WHEN has_peers THEN last_operation_id END,
    CASE
        WHEN NOT has_peers THEN duration_ns
        WHEN end_ns - last_start_ns > -10_000_000 THEN end_ns - last_start_ns
        ELSE 0
    END
FROM grouped;
