-- Timed operations of the ranks of a job, from tables of operations: the computation of a
-- microbatch, a send, a collective.
-- One row per operation.
-- Key: operation_id.
CREATE TABLE staging.operation (
    -- The operation's event.
    operation_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Rank, from the table; otherwise the ordinal of data-parallel rank and stage, from 0.
    rank,
    -- Data-parallel rank; 0 if the table has none.
    dp_rank,
    -- Pipeline stage.
    stage,
    -- Number of the step.
    step,
    -- Type, as in `staging.operation_type`.
    type,
    -- Ordinal among operations of its type on its rank in the step, from 0, in start order.
    ordinal,
    -- Model chunk (virtual stage) of the rank, from 0.
    chunk,
    -- Microbatch; NULL if the table has none.
    microbatch,
    -- [ns] Start. Tables count from the start of the step, or of the job.
    start_ns,
    -- [ns] End.
    end_ns,
    -- [ns] Duration, from the table: it may be finer than start and end.
    duration_ns
) AS
WITH
event AS (
    SELECT
        *,
        (args ->> [
            '$.rank', '$.dp_rank', '$.stage', '$.step', '$.chunk', '$.microbatch',
            '$.end_ns', '$.ordinal'
        ])::BIGINT[] AS field
    FROM raw.event
    WHERE cat = 'operation' AND ph = 'X' AND ts_ns IS NOT NULL AND dur_ns IS NOT NULL
),

operation AS (
    SELECT
        event_id,
        raw.trace.run_id,
        event.trace_id,
        field[1] AS rank,
        coalesce(field[2], 0) AS dp_rank,
        field[3] AS stage,
        field[4] AS step,
        event.name AS type,
        greatest(coalesce(field[5], 0), 0) AS chunk,
        CASE WHEN field[6] >= 0 THEN field[6] END AS microbatch,
        ts_ns,
        field[7] AS end_ns,
        dur_ns,
        field[8] AS sequence
    FROM event
    INNER JOIN raw.trace USING (trace_id)
)

SELECT
    event_id,
    run_id,
    trace_id,
    coalesce(
        rank, dense_rank() OVER (PARTITION BY run_id ORDER BY dp_rank, stage) - 1
    ),
    dp_rank,
    stage,
    step,
    type,
    row_number() OVER (
        PARTITION BY run_id, step, dp_rank, stage, type ORDER BY ts_ns, sequence, event_id
    ) - 1,
    chunk,
    microbatch,
    ts_ns,
    end_ns,
    dur_ns
FROM operation;
