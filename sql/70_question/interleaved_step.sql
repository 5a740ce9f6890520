-- How long would steps take if each pipeline stage had this many chunks of the model
-- (virtual stages)? With 1, the schedule's prediction for stages as they are, if they have
-- one. For tables of operations.
-- One row per step.
-- Key: run_id, step.
CREATE MACRO question.interleaved_step(
    -- Number of chunks per stage.
    chunks
) AS TABLE
SELECT
    -- The run.
    run_id,
    -- Number of the step.
    step,
    -- [ns] From the first start to the last end of an operation, as recorded.
    measured_ns,
    -- [ns] The same as predicted: the time before and after all computation stays. NULL if
    -- the schedule would wait for itself.
    predicted_ns
FROM (
    WITH RECURSIVE
    node AS (
        SELECT *, row_number() OVER () AS node_id
        FROM prediction.interleaved_compute(chunks)
    ),

    -- What each computation starts after: the previous one in its stage, that of the
    -- previous (backward: next) chunk in the model, and backward at the end of the model
    -- its own forward computation.
    edge AS (
        SELECT
            source.node_id AS source,
            target.node_id AS target,
            source.duration_ns + target.delay_ns AS weight_ns
        FROM node AS source
        INNER JOIN node AS target USING (run_id, step, dp_rank, stage_position)
        WHERE source.position + 1 = target.position
        UNION ALL
        SELECT
            source.node_id, target.node_id, source.duration_ns + target.delay_ns
        FROM node AS source
        INNER JOIN node AS target USING (run_id, step, dp_rank, direction, number)
        WHERE
            source.place + CASE WHEN direction = 'forward' THEN 1 ELSE -1 END
            = target.place
        UNION ALL
        SELECT
            source.node_id, target.node_id, source.duration_ns + target.delay_ns
        FROM node AS source
        INNER JOIN node AS target USING (run_id, step, dp_rank, place, number)
        WHERE source.direction = 'forward' AND target.direction = 'backward'
    ),

    -- As in `simulation.segment_time`: a computation starts once all its inputs are known,
    -- and informs others.
    known (node_id, begin_ns, missing) USING KEY (
        node_id, max(begin_ns), sum(missing)
    ) AS (
        SELECT node_id, 0::BIGINT, -count(edge.source)
        FROM node
        LEFT JOIN edge ON node_id = edge.target
        GROUP BY node_id
        UNION
        SELECT edge.target, known.begin_ns + edge.weight_ns, 1
        FROM known
        INNER JOIN edge ON known.node_id = edge.source
        WHERE known.missing = 0
    ),

    pipeline AS (
        SELECT
            run_id,
            step,
            CASE WHEN bool_and(missing = 0) THEN max(begin_ns + duration_ns) END
            AS simulated_ns
        FROM known
        INNER JOIN node USING (node_id)
        GROUP BY run_id, step
    ),

    recorded AS (
        SELECT run_id, step, max(end_ns) - min(start_ns) AS compute_ns
        FROM graph.pipeline_compute
        GROUP BY run_id, step
    ),

    measured AS (
        SELECT run_id, step, max(end_ns) - min(start_ns) AS measured_ns
        FROM staging.operation
        GROUP BY run_id, step
    )

    SELECT
        run_id, step, measured_ns, simulated_ns + measured_ns - compute_ns AS predicted_ns
    FROM pipeline
    INNER JOIN recorded USING (run_id, step)
    INNER JOIN measured USING (run_id, step)
    ORDER BY run_id, step
);
