-- The whole time of every host thread, from the first event of its trace to the last,
-- cut into spans of one overhead type each (Lin et al. 2022, section 3): T2 from a
-- top-level op's begin to its first launch, T4 a launch, T5 between launches or an op
-- without any, T3 after the last launch, T1 between top-level ops. While a batch is
-- fetched (`staging.data_loading`) all of it is wait_data, whatever runs in there, but for
-- launches and for waits for a device.
-- One row per span; the spans of a thread follow each other without gap or overlap.
-- Key: thread_id, position.
CREATE TABLE overhead.timeline (
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- Host thread.
    thread_id,
    -- Position of the span on its thread, from 1.
    position,
    -- T1..T5, wait_stream, wait_device, wait_event, wait_copy, wait_queue, wait_thread,
    -- wait_rank or wait_data.
    type,
    -- [ns] Begin.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Top-level op that the span lies in.
    op_id,
    -- Launch or wait that the span lies in.
    call_id
) AS
WITH
extent AS (
    SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM (
        SELECT trace_id, start_ns, end_ns FROM staging.host_event
        UNION ALL
        SELECT trace_id, start_ns, start_ns FROM staging.gpu_op
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
            -- A launch that begins in the op's last nanosecond lies behind it.
            AND call.start_ns < top_level_event.end_ns
    WHERE top_level_event.is_op
    GROUP BY ALL
),

-- Ranges may nest: behind an inner one the outer one goes on.
loading AS (
    SELECT
        thread_id,
        start_ns,
        max(end_ns) OVER (
            PARTITION BY thread_id ORDER BY start_ns, end_ns DESC, annotation_id
            ROWS UNBOUNDED PRECEDING
        ) AS end_ns
    FROM staging.data_loading
),

every_cut AS (
    SELECT thread_id, unnest([start_ns, wait_start_ns, end_ns]) AS cut_ns
    FROM graph.host_call
    UNION ALL
    SELECT thread_id, unnest([start_ns, end_ns]) FROM op
    UNION ALL
    SELECT thread_id, unnest([start_ns, end_ns]) FROM loading
    UNION ALL
    SELECT thread_id, unnest([start_ns, end_ns]) FROM graph.thread_wait
    UNION ALL
    SELECT worker_thread_id, end_ns FROM graph.thread_wait
    UNION ALL
    SELECT thread_id, unnest([start_ns, end_ns]) FROM graph.rank_wait
    UNION ALL
    SELECT thread.thread_id, unnest([step.start_ns, step.end_ns])
    FROM staging.step
    INNER JOIN staging.thread USING (trace_id)
    UNION ALL
    SELECT thread_id, unnest([start_ns, end_ns])
    FROM staging.thread
    INNER JOIN extent USING (trace_id)
),

cut AS (
    SELECT DISTINCT thread_id, cut_ns FROM every_cut
),

span AS (
    SELECT
        thread.run_id,
        thread.trace_id,
        thread_id,
        cut_ns AS start_ns,
        lead(cut_ns) OVER (PARTITION BY thread_id ORDER BY cut_ns) AS end_ns
    FROM cut
    INNER JOIN staging.thread USING (thread_id)
),

located AS (
    SELECT
        span.*,
        CASE WHEN op.end_ns > span.start_ns THEN op.op_id END AS op_id,
        op.first_launch_ns,
        op.last_launch_ns,
        CASE WHEN call.end_ns > span.start_ns THEN call.call_id END AS call_id,
        call.awaits,
        call.wait_start_ns,
        thread_wait.end_ns > span.start_ns AS waits_for_thread,
        rank_wait.end_ns > span.start_ns AS waits_for_rank,
        loading.end_ns > span.start_ns AS is_loading
    FROM span
    ASOF LEFT JOIN op
        ON span.thread_id = op.thread_id AND span.start_ns >= op.start_ns
    ASOF LEFT JOIN graph.host_call AS call
        ON span.thread_id = call.thread_id AND span.start_ns >= call.start_ns
    ASOF LEFT JOIN graph.thread_wait
        ON span.thread_id = thread_wait.thread_id AND span.start_ns >= thread_wait.start_ns
    ASOF LEFT JOIN graph.rank_wait
        ON span.thread_id = rank_wait.thread_id AND span.start_ns >= rank_wait.start_ns
    ASOF LEFT JOIN loading
        ON span.thread_id = loading.thread_id AND span.start_ns >= loading.start_ns
    WHERE span.end_ns IS NOT NULL
)

SELECT
    run_id,
    trace_id,
    thread_id,
    row_number() OVER (PARTITION BY thread_id ORDER BY start_ns) AS position,
    CASE
        WHEN call_id IS NOT NULL AND start_ns < wait_start_ns THEN 'T4'
        WHEN call_id IS NOT NULL THEN 'wait_' || awaits
        WHEN is_loading THEN 'wait_data'
        WHEN waits_for_rank THEN 'wait_rank'
        WHEN op_id IS NOT NULL AND start_ns < first_launch_ns THEN 'T2'
        WHEN op_id IS NOT NULL AND start_ns >= last_launch_ns THEN 'T3'
        WHEN op_id IS NOT NULL THEN 'T5'
        WHEN waits_for_thread THEN 'wait_thread'
        ELSE 'T1'
    END AS type,
    start_ns,
    end_ns,
    op_id,
    call_id
FROM located;
