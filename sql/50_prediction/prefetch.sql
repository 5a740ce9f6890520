-- Work that workers do ahead of threads in scenarios (`prediction.overlapped_span`): each
-- fetches its batches one after another, and starts the batch a few further on when its
-- thread has taken the current one. The trace is assumed to start in the middle of a
-- training, with workers as far ahead as in steady state: batches finish at even intervals,
-- and the first one no later after the trace starts than the thread would have to wait for
-- it. Each worker is a separate lane, with two spans per batch: the wait until it is
-- requested, and the time that it takes.
-- One row per variant and batch.
-- Key: variant_id, lane, position.
CREATE VIEW prediction.prefetch (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread that takes the batches.
    thread_id,
    -- Position of the span at which it does.
    first_position,
    -- The worker as a lane: its number, after the number of the edit, and 10^12 times that
    -- with the thread (`prediction.lane_thread`).
    lane,
    -- Position of the batch on that lane.
    position,
    -- Position of the span of the thread that the batch waits for; NULL: none.
    asked_position,
    -- [ns] The thread's cost of taking it.
    host_ns,
    -- [1] How far the worker is ahead as the trace starts, in mean times of a batch,
    ahead_share,
    -- [ns] and additional time ahead: the thread's time for the rest of a step, minus what
    -- is before its first batch, both as measured.
    spare_ns
) AS
WITH
batch AS (
    SELECT DISTINCT scenario, edit, run_id, trace_id, thread_id, batch, first_position
    FROM prediction.overlapped_span
),

-- The thread's time for everything else from one batch to the next or, with a single batch,
-- to the end of its thread.
spare_time AS (
    SELECT
        scenario,
        edit,
        thread_id,
        coalesce(
            (max(start_ns) - min(start_ns)) // nullif(count(*) - 1, 0),
            any_value(thread_end_ns) - min(start_ns)
        )
        - (sum(loading_ns) / count(*))::BIGINT
        - (min(start_ns) - any_value(origin_ns)) AS spare_ns
    FROM (
        SELECT
            scenario,
            edit,
            thread_id,
            trace_id,
            min(start_ns) AS start_ns,
            sum((end_ns - start_ns) * ahead_share) AS loading_ns
        FROM prediction.overlapped_span
        INNER JOIN overhead.timeline AS span USING (trace_id, thread_id, position)
        GROUP BY scenario, edit, thread_id, trace_id, batch
    )
    INNER JOIN (
        SELECT trace_id, min(start_ns) AS origin_ns
        FROM overhead.timeline
        GROUP BY trace_id
    ) USING (trace_id)
    INNER JOIN (
        SELECT thread_id, max(end_ns) AS thread_end_ns
        FROM overhead.timeline
        GROUP BY thread_id
    ) USING (thread_id)
    GROUP BY scenario, edit, thread_id
),

placed AS (
    SELECT
        batch.*,
        workers * ahead AS ahead_count,
        (edit * 1_000 + (batch - 1) % workers) * 1_000_000_000_000 + thread_id AS lane,
        2 * ((batch - 1) // workers) + 2 AS position,
        coalesce(edited.host_ns, 0) AS host_ns,
        (workers - 1 - (batch - 1) % workers) / workers AS ahead_share,
        spare_ns
    FROM batch
    INNER JOIN spare_time USING (scenario, edit, thread_id)
    INNER JOIN prediction.scenario_edit AS edited
        ON batch.scenario = edited.scenario AND batch.edit = edited.position
)

SELECT
    variant_id,
    placed.edit,
    placed.run_id,
    placed.trace_id,
    placed.thread_id,
    placed.first_position,
    lane,
    placed.position,
    asked.first_position,
    host_ns,
    placed.ahead_share,
    spare_ns
FROM placed
INNER JOIN prediction.variant AS variant ON placed.scenario = variant.scenario
LEFT JOIN batch AS asked
    ON
        placed.scenario = asked.scenario
        AND placed.edit = asked.edit
        AND placed.thread_id = asked.thread_id
        AND placed.batch - ahead_count = asked.batch;
