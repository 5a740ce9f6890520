-- The schedule of a pipeline whose stages have several chunks of the model (virtual
-- stages), as in Megatron-LM, for the stages, microbatches and steps of a recorded run: one
-- forward, one backward computation in turn, microbatches in groups of as many as there are
-- stages, each chunk after the other. Each chunk takes its part of the stage's time.
-- One row per computation.
-- Key: run_id, step, dp_rank, stage_position, direction, chunk, number.
CREATE MACRO prediction.interleaved_compute(
    -- Number of chunks per stage.
    chunks
) AS TABLE
SELECT
    -- The run.
    run_id,
    -- Number of the step.
    step,
    -- Data-parallel rank.
    dp_rank,
    -- Ordinal of the stage, from 0.
    stage_position,
    -- `forward` or `backward`.
    direction,
    -- Chunk of the stage, from 0.
    chunk,
    -- Ordinal of the microbatch, from 0.
    number,
    -- Number of the chunk in the model, counted through all stages, from 0.
    place,
    -- Its ordinal in the stage's computation, from 0.
    position,
    -- [ns] Delay from the end of everything that it waits for to its start.
    delay_ns,
    -- [ns] Duration.
    duration_ns
FROM (
    WITH
    -- The stage's time for a microbatch, over all chunks that it has now.
    recorded AS (
        SELECT
            run_id,
            step,
            dp_rank,
            stage_position,
            stage_count,
            direction,
            number,
            sum(duration_ns) AS duration_ns
        FROM graph.pipeline_compute
        GROUP BY ALL
    ),

    batch AS (
        SELECT run_id, max(number) + 1 AS microbatches
        FROM recorded
        GROUP BY run_id
    ),

    typical AS (
        SELECT
            run_id,
            direction,
            greatest(median(start_ns - ready_ns), 0)::BIGINT AS delay_ns
        FROM graph.pipeline_compute
        GROUP BY run_id, direction
    ),

    -- Backward, chunks come in the opposite order.
    part AS (
        SELECT
            recorded.*,
            microbatches,
            chunk,
            CASE WHEN direction = 'forward' THEN chunk ELSE chunks - 1 - chunk END AS turn,
            CASE
                WHEN chunks = 1 THEN microbatches
                ELSE least(stage_count, microbatches - number // stage_count * stage_count)
            END AS group_size,
            CASE WHEN chunks = 1 THEN 0 ELSE number // stage_count * stage_count END
            AS group_first,
            least(
                CASE
                    WHEN chunks = 1 THEN stage_count - stage_position - 1
                    ELSE 2 * (stage_count - stage_position - 1) + (chunks - 1) * stage_count
                END,
                microbatches * chunks
            ) AS ahead
        FROM recorded
        INNER JOIN batch USING (run_id)
        CROSS JOIN range(chunks) AS numbered (chunk)
    ),

    -- Ordinal of the forward, or backward, computation of its stage.
    counted AS (
        SELECT
            *, group_first * chunks + turn * group_size + number - group_first AS nth
        FROM part
    )

    SELECT
        run_id,
        step,
        dp_rank,
        stage_position,
        direction,
        chunk,
        number,
        chunk * stage_count + stage_position AS place,
        CASE
            WHEN direction = 'forward' THEN
                CASE WHEN nth < ahead THEN nth ELSE 2 * nth - ahead END
            WHEN nth < microbatches * chunks - ahead THEN ahead + 2 * nth + 1
            ELSE microbatches * chunks + nth
        END AS position,
        delay_ns,
        (duration_ns / chunks)::BIGINT AS duration_ns
    FROM counted
    INNER JOIN typical USING (run_id, direction)
);
