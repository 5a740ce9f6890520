-- Where the times of scenarios depend on guesses about threads, because a trace shows no wait.
-- `assumed`: the thread of the steps comes to wait where that is assumed (`graph.ready_wait`).
-- `free`: no wait for a thread is known, and the thread of the steps gets ahead of it: it starts
-- a step before the other one has done what was done by then in the trace. `rest`: a long rest
-- ends soon after what another thread does, which now comes earlier or later. Included are
-- guesses about threads that work for more than 1 % of the steps, if they may change these by
-- more than 0.1 %.
-- One row per variant, thread and kind.
-- Key: variant_id, thread_id, kind.
CREATE VIEW simulation.thread_guess (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The trace.
    trace_id,
    -- The thread for which no wait is seen, or the thread that rests.
    thread_id,
    -- `assumed`, `free` or `rest`.
    kind,
    -- [ns] How long the thread of the steps waits because of that, in all; how far it gets
    -- ahead at most; or how much earlier or later the rests would end as waits, in all.
    guess_ns,
    -- [1] That, relative to all steps of the trace.
    guess_share,
    -- [1] How much of their time the thread works.
    working_share
) AS
WITH
-- The first event of each step.
begun AS (
    SELECT step.trace_id, step.thread_id, min(event.start_ns) AS at_ns
    FROM staging.step AS step
    INNER JOIN graph.top_level_event AS event
        ON
            step.thread_id = event.thread_id
            AND event.start_ns >= step.start_ns
            AND event.start_ns < step.end_ns
    GROUP BY step.step_id, step.trace_id, step.thread_id
),

loose AS (
    SELECT DISTINCT trace_id, thread_id
    FROM graph.top_level_event
    ANTI JOIN graph.needed_thread AS needed USING (thread_id)
),

-- What the other thread had done by then.
ahead AS (
    SELECT
        begun.trace_id,
        begun.thread_id AS step_thread_id,
        begun.at_ns,
        event.thread_id,
        event.end_ns
    FROM begun
    INNER JOIN loose USING (trace_id)
    ASOF INNER JOIN graph.top_level_event AS event
        ON loose.thread_id = event.thread_id AND begun.at_ns >= event.end_ns
),

overtaking AS (
    SELECT
        done.variant_id, ahead.trace_id, ahead.thread_id,
        done.end_ns - started.end_ns AS guess_ns
    FROM ahead
    INNER JOIN overhead.timeline AS span
        ON ahead.thread_id = span.thread_id AND ahead.end_ns = span.end_ns
    INNER JOIN overhead.timeline AS step_span
        ON ahead.step_thread_id = step_span.thread_id AND at_ns = step_span.end_ns
    INNER JOIN simulation.host_span_time AS done
        ON span.thread_id = done.thread_id AND span.position = done.position
    INNER JOIN simulation.host_span_time AS started
        ON
            done.variant_id = started.variant_id
            AND step_span.thread_id = started.thread_id
            AND step_span.position = started.position
),

assumed AS (
    SELECT ready.thread_id, span.position, worker_thread_id
    FROM graph.ready_wait AS ready
    INNER JOIN overhead.timeline AS span
        ON ready.thread_id = span.thread_id AND resume_ns = span.end_ns
    WHERE is_assumed
),

-- How much later that wait ends than it would without any such.
reach AS (
    SELECT
        host.variant_id,
        host.trace_id,
        host.thread_id,
        host.position,
        assumed.worker_thread_id,
        max(source.begin_ns + weight_ns) AS reached_ns
    FROM (SELECT DISTINCT thread_id, position FROM assumed) AS waiting
    INNER JOIN simulation.host_offset AS host USING (thread_id, position)
    INNER JOIN simulation.segment_edge AS edge
        ON
            host.variant_id = edge.variant_id
            AND host.thread_id = target_lane
            AND host.segment + 1 = target_segment
    INNER JOIN simulation.segment_time AS source
        ON
            edge.variant_id = source.variant_id
            AND edge.source_trace_id = source.trace_id
            AND edge.source_lane = source.lane
            AND edge.source_segment = source.segment
    LEFT JOIN assumed
        ON
            host.thread_id = assumed.thread_id
            AND host.position = assumed.position
            AND source_lane = assumed.worker_thread_id
    WHERE waits
    GROUP BY ALL
),

waiting AS (
    SELECT
        variant_id, trace_id, worker_thread_id AS thread_id,
        reached_ns - max(reached_ns) FILTER (worker_thread_id IS NULL) OVER (
            PARTITION BY variant_id, thread_id, position
        ) AS guess_ns
    FROM reach
    QUALIFY worker_thread_id IS NOT NULL
),

found AS (
    SELECT variant_id, thread_id, 'assumed' AS kind, sum(guess_ns)::BIGINT AS guess_ns
    FROM waiting
    WHERE guess_ns > 0
    GROUP BY variant_id, thread_id
    UNION ALL
    SELECT variant_id, thread_id, 'free', max(guess_ns)
    FROM overtaking
    GROUP BY variant_id, thread_id
    UNION ALL
    SELECT variant_id, thread_id, 'rest', sum(guess_ns)::BIGINT
    FROM (
        SELECT variant_id, thread_id, max(guess_ns) AS guess_ns
        FROM simulation.rest_guess
        GROUP BY variant_id, thread_id, resume_ns
    )
    GROUP BY variant_id, thread_id
),

-- Time of steps, and of other threads in them.
stepping AS (
    SELECT trace_id, sum(end_ns - start_ns) AS steps_ns FROM staging.step GROUP BY trace_id
),

beside AS (
    SELECT event.thread_id, sum(least(event.end_ns, step.end_ns) - event.start_ns) AS working_ns
    FROM staging.step AS step
    INNER JOIN graph.top_level_event AS event
        ON
            step.trace_id = event.trace_id
            AND event.start_ns >= step.start_ns
            AND event.start_ns < step.end_ns
    WHERE event.thread_id <> step.thread_id
    GROUP BY event.thread_id
)

SELECT
    variant_id, trace_id, thread_id, kind, guess_ns, guess_ns / nullif(steps_ns, 0),
    coalesce(working_ns / nullif(steps_ns, 0), 0)
FROM found
INNER JOIN staging.thread AS thread USING (thread_id)
INNER JOIN stepping USING (trace_id)
LEFT JOIN beside USING (thread_id)
WHERE guess_ns > 0.001 * steps_ns AND (kind = 'rest' OR working_ns > 0.01 * steps_ns);
