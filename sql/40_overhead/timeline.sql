-- The whole time of every host thread, from the first event of its trace to the last,
-- divided into spans of one overhead type each (Lin et al. 2022, section 3): T2 from a
-- top-level op's start to its first launch, T4 a launch, T5 between launches or an op
-- without any, T3 after the last launch, T1 between top-level ops. While a batch is fetched
-- (`staging.data_loading`), all of the time is wait_data, whatever runs in it, except
-- launches and waits on a device.
-- One row per span; the spans of a thread follow each other without gap or overlap.
-- Key: thread_id, position.
CREATE TABLE overhead.timeline (
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread, from 1.
    position,
    -- T1..T5, wait_stream, wait_device, wait_event, wait_copy, wait_queue, wait_thread,
    -- wait_rank or wait_data.
    type,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- The top-level op around the span.
    op_id,
    -- The launch or wait around the span.
    call_id
) AS
WITH
extent AS (
    SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT trace_id, start_ns, end_ns FROM staging.host_event
        UNION ALL
        SELECT trace_id, start_ns, start_ns FROM staging.gpu_op
        UNION ALL
        -- A Python function that is a step may start before any of these, and end later.
        SELECT trace_id, start_ns, end_ns FROM staging.step
    )
    GROUP BY trace_id
),

op AS (
    SELECT
        top_level_event.thread_id,
        top_level_event.node_id AS op_id,
        top_level_event.start_ns,
        top_level_event.end_ns,
        min(call.start_ns) AS first_launch_ns,
        max(call.end_ns) AS last_launch_ns
    FROM graph.top_level_event
    LEFT JOIN staging.call AS call
        ON
            top_level_event.node_id = call.top_op_id
            AND call.kind = 'launch'
            -- A launch that starts in the op's last nanosecond comes after it.
            AND call.start_ns < top_level_event.end_ns
    WHERE top_level_event.is_op
    GROUP BY ALL
),

-- Boundaries of spans, and what starts there: at the start of a thread, what is over.
every_cut AS (
    SELECT
        thread_id, start_ns AS cut_ns, -1 AS call_id, start_ns AS call_until_ns, -1 AS op_id,
        start_ns AS op_until_ns, start_ns AS loading_until_ns, start_ns AS thread_until_ns,
        start_ns AS rank_until_ns
    FROM staging.thread
    INNER JOIN extent USING (trace_id)
    UNION ALL BY NAME
    SELECT thread_id, end_ns AS cut_ns FROM staging.thread INNER JOIN extent USING (trace_id)
    UNION ALL BY NAME
    SELECT thread_id, start_ns AS cut_ns, call_id, end_ns AS call_until_ns FROM graph.host_call
    UNION ALL BY NAME
    SELECT thread_id, unnest([wait_start_ns, end_ns]) AS cut_ns FROM graph.host_call
    UNION ALL BY NAME
    SELECT thread_id, start_ns AS cut_ns, op_id, end_ns AS op_until_ns FROM op
    UNION ALL BY NAME
    SELECT thread_id, end_ns AS cut_ns FROM op
    UNION ALL BY NAME
    SELECT thread_id, start_ns AS cut_ns, end_ns AS loading_until_ns FROM staging.loading_range
    UNION ALL BY NAME
    SELECT thread_id, end_ns AS cut_ns FROM staging.loading_range
    UNION ALL BY NAME
    SELECT thread_id, start_ns AS cut_ns, end_ns AS thread_until_ns FROM graph.thread_wait
    UNION ALL BY NAME
    SELECT unnest([thread_id, worker_thread_id]) AS thread_id, end_ns AS cut_ns
    FROM graph.thread_wait
    UNION ALL BY NAME
    SELECT thread_id, start_ns AS cut_ns, end_ns AS rank_until_ns FROM graph.rank_wait
    UNION ALL BY NAME
    SELECT thread_id, end_ns AS cut_ns FROM graph.rank_wait
    UNION ALL BY NAME
    SELECT thread_id, unnest([posted_ns, start_ns, end_ns]) AS cut_ns FROM graph.message_wait
    UNION ALL BY NAME
    SELECT thread.thread_id, unnest([step.start_ns, step.end_ns]) AS cut_ns
    FROM staging.step
    INNER JOIN staging.thread USING (trace_id)
),

-- Cuts in thread order: the windows below take them in the order in which they come.
cut AS (
    SELECT
        thread_id,
        cut_ns,
        arg_max(call_id, call_until_ns) AS call_id,
        arg_max(op_id, op_until_ns) AS op_id,
        max(loading_until_ns) AS loading_until_ns,
        max(thread_until_ns) AS thread_until_ns,
        max(rank_until_ns) AS rank_until_ns
    FROM every_cut
    GROUP BY thread_id, cut_ns
    ORDER BY thread_id, cut_ns
),

bounded AS (
    SELECT
        *,
        row_number() OVER () AS number,
        thread_id IS DISTINCT FROM lag(thread_id) OVER () AS is_first,
        CASE WHEN lead(thread_id) OVER () = thread_id THEN lead(cut_ns) OVER () END AS end_ns
    FROM cut
),

-- For each kind, what started last on the thread.
begun AS (
    SELECT
        thread_id,
        number - max(number) FILTER (is_first) OVER so_far + 1 AS position,
        cut_ns AS start_ns,
        end_ns,
        arg_max(call_id, number) OVER so_far AS call_id,
        arg_max(op_id, number) OVER so_far AS op_id,
        arg_max(loading_until_ns, number) OVER so_far AS loading_until_ns,
        arg_max(thread_until_ns, number) OVER so_far AS thread_until_ns,
        arg_max(rank_until_ns, number) OVER so_far AS rank_until_ns
    FROM bounded
    WINDOW so_far AS (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)

SELECT
    thread.run_id,
    thread.trace_id,
    begun.thread_id,
    position,
    CASE
        WHEN begun.start_ns < call.wait_start_ns THEN 'T4'
        WHEN call.call_id IS NOT NULL THEN 'wait_' || awaits
        WHEN loading_until_ns > begun.start_ns THEN 'wait_data'
        WHEN rank_until_ns > begun.start_ns THEN 'wait_rank'
        WHEN thread_until_ns > begun.start_ns THEN 'wait_thread'
        WHEN begun.start_ns < first_launch_ns THEN 'T2'
        WHEN begun.start_ns >= last_launch_ns THEN 'T3'
        WHEN op.op_id IS NOT NULL THEN 'T5'
        ELSE 'T1'
    END,
    begun.start_ns,
    begun.end_ns,
    op.op_id,
    call.call_id
FROM begun
INNER JOIN staging.thread USING (thread_id)
LEFT JOIN graph.host_call AS call
    ON begun.call_id = call.call_id AND call.end_ns > begun.start_ns
LEFT JOIN op ON begun.op_id = op.op_id AND op.end_ns > begun.start_ns
WHERE begun.end_ns IS NOT NULL;
