-- Sends and receives between stages: which computation each belongs to, and which send
-- belongs to which receive. The n-th send of a stage belongs to its n-th computation. The
-- first receive may be missing, because the first stage needs none, and those of
-- computations without a peer may be missing. Logs contain sends and receives that never
-- ran: receives that start after the last computation of their direction has started, sends
-- that end before the first has ended, and those at the ends of the pipeline.
-- One row per send and receive that belongs to a computation.
-- Key: run_id, stage, type, ordinal.
CREATE TABLE graph.pipeline_transfer (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Pipeline stage.
    stage,
    -- Type of the send or receive.
    type,
    -- Which of its type in the stage, from 0.
    ordinal,
    -- `send` or `recv`.
    kind,
    -- `forward` or `backward`.
    direction,
    -- Type of the computation that it sends from, or receives for.
    compute_type,
    -- Ordinal of that computation within its type, from 0.
    compute_ordinal,
    -- Ordinal of the sending stage; NULL at the ends of the pipeline.
    sender,
    -- Ordinal among the sender's in this direction, from 0; NULL at the ends of the
    -- pipeline.
    number
) AS
WITH
-- Chunks of all stages are numbered through the model: a computation receives from the
-- previous chunk and sends to the next one, and backward the other way round.
need AS (
    SELECT
        compute.*,
        of.kind AS transfer,
        CASE WHEN of.kind = 'send' THEN 1 ELSE -1 END
        * CASE WHEN direction = 'forward' THEN 1 ELSE -1 END AS way,
        chunk * stage_count + stage_position + way
        BETWEEN 0 AND chunk_count * stage_count - 1 AS has_peer
    FROM graph.pipeline_operation AS compute
    CROSS JOIN (VALUES ('send'), ('recv')) AS of (kind)
    WHERE compute.kind = 'compute'
),

numbered AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY run_id, stage, direction, transfer, has_peer ORDER BY ordinal
        ) - 1 AS number
    FROM need
),

-- Clocks of ranks agree to about 50 us.
bound AS (
    SELECT
        run_id,
        stage,
        direction,
        transfer AS kind,
        max(start_ns) + 50_000 AS last_start_ns,
        min(end_ns) - 50_000 AS first_end_ns,
        count(*) AS computes,
        count(*) FILTER (has_peer) AS peers
    FROM need
    GROUP BY run_id, stage, direction, transfer
),

ran AS (
    SELECT
        moved.*,
        row_number() OVER (PARTITION BY run_id, stage, type ORDER BY ordinal) - 1 AS nth,
        computes - count(*) OVER of_type AS missing,
        peers - count(*) OVER of_type AS missing_peers
    FROM graph.pipeline_operation AS moved
    INNER JOIN bound USING (run_id, stage, direction, kind)
    WHERE
        CASE kind
            WHEN 'recv' THEN start_ns <= last_start_ns
            WHEN 'send' THEN end_ns >= first_end_ns
        END
    WINDOW of_type AS (PARTITION BY run_id, stage, type)
)

SELECT
    ran.run_id,
    ran.trace_id,
    ran.stage,
    ran.type,
    ran.ordinal,
    ran.kind,
    ran.direction,
    compute.type,
    compute.ordinal,
    CASE
        WHEN NOT has_peer THEN NULL
        WHEN ran.kind = 'send' THEN ran.stage_position
        ELSE (ran.stage_position + way + ran.stage_count) % ran.stage_count
    END,
    -- For those with a peer: the n-th that the stage sends is the n-th that it receives.
    CASE
        WHEN has_peer THEN
            row_number() OVER (
                PARTITION BY ran.run_id, ran.stage, ran.type, has_peer ORDER BY ran.ordinal
            ) - 1
    END
FROM ran
INNER JOIN numbered AS compute
    ON
        ran.run_id = compute.run_id
        AND ran.stage = compute.stage
        AND ran.direction = compute.direction
        AND ran.kind = compute.transfer
        AND CASE
            WHEN missing = 1 AND ran.kind = 'recv' THEN compute.ordinal = nth + 1
            WHEN missing > 0 AND missing_peers = 0 THEN has_peer AND compute.number = nth
            ELSE compute.ordinal = nth
        END;
