-- What may have let idle threads continue: another thread that is tied to it stops
-- (`graph.thread_tie`), or does something (`graph.thread_signal`), or some time has passed since
-- this one stopped or continued last. A machine wakes threads in about the same time, so the
-- cause is what the thread follows most steadily; of causes that are about as steady, the last
-- one. A thread that others work for may wait for several of them, so it follows the last one
-- that stops.
-- One row per rest, thread and time.
-- Key: thread_id, resume_ns, worker_thread_id, at_ns.
CREATE TABLE graph.possible_cause (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The resting thread.
    thread_id,
    -- [ns] Start of its rest.
    stop_ns,
    -- [ns] Time when it continues.
    resume_ns,
    -- The other thread, or the same if it is time.
    worker_thread_id,
    -- [ns] When that thread stopped, or signalled; when this one stopped, or continued last.
    at_ns,
    -- Whether that thread did not stop.
    is_signal,
    -- [ns] How much such delays vary: the shortest range that holds this one and half of all.
    spread_ns,
    -- Whether that is the cause.
    is_cause
) AS
WITH
caused AS (
    SELECT
        run_id,
        trace_id,
        thread_id,
        stop_ns,
        resume_ns,
        worker_thread_id,
        worker_stop_ns AS at_ns,
        false AS is_signal,
        own.ordinal < worker.ordinal AS is_join,
        delay_ns,
        NULL AS name,
        true AS is_end
    FROM graph.thread_handover AS handover
    INNER JOIN graph.thread_tie AS tie USING (run_id, trace_id, thread_id, worker_thread_id)
    INNER JOIN graph.thread_order AS own USING (run_id, trace_id, thread_id)
    INNER JOIN graph.thread_order AS worker
        ON trace_id = worker.trace_id AND worker_thread_id = worker.thread_id
    -- Both rest for longer than a handover takes.
    WHERE is_tied AND handover.chance_share <= 0.5
    UNION ALL
    SELECT
        run_id, trace_id, thread_id, stop_ns, resume_ns, worker_thread_id, signal_ns, true,
        false, delay_ns, name, is_end
    FROM graph.thread_signal
),

alone AS (
    SELECT
        any_value(run_id) AS run_id,
        any_value(trace_id) AS trace_id,
        thread_id,
        any_value(stop_ns) AS stop_ns,
        resume_ns,
        lag(resume_ns) OVER (PARTITION BY thread_id ORDER BY resume_ns) AS last_ns,
        -- Threads that take turns are seldom on their own.
        CASE
            WHEN bool_or(
                (worker_thread_id, thread_id) IN (
                    SELECT (thread_id, worker_thread_id) FROM caused
                )
            ) THEN 4 ELSE 1
        END AS handicap
    FROM caused
    GROUP BY thread_id, resume_ns
),

possible AS (
    SELECT *, 1 AS handicap FROM caused
    UNION ALL BY NAME
    SELECT
        run_id, trace_id, thread_id, stop_ns, resume_ns, thread_id AS worker_thread_id,
        stop_ns AS at_ns, true AS is_signal, false AS is_join, resume_ns - stop_ns AS delay_ns,
        'rest' AS name, false AS is_end, handicap
    FROM alone
    UNION ALL BY NAME
    SELECT
        run_id, trace_id, thread_id, stop_ns, resume_ns, thread_id AS worker_thread_id,
        last_ns AS at_ns, true AS is_signal, false AS is_join, resume_ns - last_ns AS delay_ns,
        'period' AS name, false AS is_end, handicap
    FROM alone
    WHERE last_ns IS NOT NULL
),

-- Ranges of delays, of those that follow each other.
near AS (
    SELECT
        *,
        lead(delay_ns, near_count - 1) OVER of_kind - delay_ns AS range_ns
    FROM (
        SELECT
            *,
            greatest(3, (count(*) OVER (
                PARTITION BY thread_id, worker_thread_id, name, is_end
            ) + 1) // 2) AS near_count
        FROM possible
    )
    WINDOW of_kind AS (
        PARTITION BY thread_id, worker_thread_id, name, is_end ORDER BY delay_ns, resume_ns
    )
),

varied AS (
    SELECT
        *,
        -- Times in old files are whole microseconds.
        handicap * greatest(coalesce(min(range_ns) OVER (
            PARTITION BY thread_id, worker_thread_id, name, is_end
            ORDER BY delay_ns, resume_ns
            ROWS BETWEEN near_count - 1 PRECEDING AND CURRENT ROW
        ), 100_000), 1_000) AS spread_ns
    FROM near
),

-- The end of an op may be the stop of its thread.
joined AS (
    SELECT
        any_value(run_id) AS run_id,
        any_value(trace_id) AS trace_id,
        thread_id,
        any_value(stop_ns) AS stop_ns,
        resume_ns,
        worker_thread_id,
        at_ns,
        bool_and(is_signal) AS is_signal,
        bool_or(is_join) AS is_join,
        min(spread_ns) AS spread_ns
    FROM varied
    GROUP BY thread_id, resume_ns, worker_thread_id, at_ns
)

SELECT
    run_id,
    trace_id,
    thread_id,
    stop_ns,
    resume_ns,
    worker_thread_id,
    at_ns,
    is_signal,
    spread_ns,
    row_number() OVER (
        PARTITION BY thread_id, resume_ns
        ORDER BY
            has_stopped AND is_signal,
            spread_ns > CASE WHEN is_signal THEN 2 ELSE 4 END * least_ns,
            at_ns DESC,
            worker_thread_id
    ) = 1
FROM (
    SELECT
        *,
        min(spread_ns) FILTER (NOT has_stopped OR NOT is_signal) OVER (
            PARTITION BY thread_id, resume_ns
        ) AS least_ns
    FROM (
        SELECT * REPLACE (
            CASE
                WHEN is_join THEN
                    min(spread_ns) OVER (PARTITION BY thread_id, resume_ns, is_join)
                ELSE spread_ns
            END AS spread_ns
        ),
        bool_or(NOT is_signal) OVER (PARTITION BY thread_id, resume_ns, worker_thread_id)
        AS has_stopped
        FROM joined
    )
);
