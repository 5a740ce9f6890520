-- What workers do ahead of threads in scenarios (`prediction.overlapped_span`): each fetches
-- in its turn, one after the other, and begins the next one but a few when its thread has
-- taken the one before those. The trace is taken to begin in the midst of a training, so
-- that workers are ahead by what they would be in steady steps: batches are done at even
-- intervals, and the first one no later after the trace begins than the thread would have
-- to wait for it. Each is a lane of its own, with two spans for each batch: the wait until it
-- is asked for, and the time that it takes.
-- One row per variant and batch.
-- Key: variant_id, lane, position.
CREATE VIEW prediction.prefetch (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread that takes what is fetched.
    thread_id,
    -- Position of the span at which it does.
    first_position,
    -- The worker as a lane: its number, after the number of the edit, and 10^12 times that
    -- with the thread (`prediction.lane_thread`).
    lane,
    -- Position of the batch on that lane.
    position,
    -- Position of the span of the thread that the batch waits for; NULL: for none.
    asked_position,
    -- [ns] What taking it costs the thread.
    host_ns,
    -- [1] How many batches' mean time the worker is ahead as the trace begins,
    ahead_share,
    -- [ns] and by how much more: what the thread takes for the rest of a step, less what is
    -- before its first batch, both as measured.
    spare_ns
) AS
WITH
batch AS (
    SELECT DISTINCT scenario, edit, run_id, trace_id, thread_id, batch, first_position
    FROM prediction.overlapped_span
),

-- What the thread takes for the rest from one batch to the next, or with one batch alone to
-- the end of its thread.
spared AS (
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
    INNER JOIN spared USING (scenario, edit, thread_id)
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
