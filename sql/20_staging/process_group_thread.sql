-- The process group of each thread that executes collectives on the CPU. Gloo starts two
-- threads for each group, and the profiler lists the groups of a rank in the order in which
-- they were made: the threads, in order, are theirs. All groups may have been used, or all
-- but the first, which has all ranks, or that one alone.
-- One row per such thread in a run with several groups.
-- Key: thread_id.
CREATE VIEW staging.process_group_thread (
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- The group's name and ranks; of the trace alone, if it is not known which one it is.
    process_group,
    -- Ranks of the group; NULL if not known.
    group_size
) AS
WITH
listed AS (
    SELECT
        trace_id,
        run_id,
        row_number() OVER (PARTITION BY trace_id ORDER BY position) AS place,
        concat_ws(' ', name, ranks_text) AS process_group,
        group_size,
        count(*) OVER (PARTITION BY trace_id) AS group_count
    FROM staging.listed_group
    INNER JOIN staging.trace USING (trace_id)
    WHERE coalesce(backends LIKE '%gloo%', true)
),

executing AS (
    SELECT
        op.trace_id,
        thread_id,
        row_number() OVER in_order - 1 AS ordinal,
        count(*) OVER (PARTITION BY op.trace_id) AS thread_count
    FROM (
        SELECT DISTINCT op.trace_id, op.thread_id
        FROM staging.process_group_op AS own
        INNER JOIN staging.op AS op ON own.op_id = op.op_id
    ) AS op
    INNER JOIN staging.thread USING (thread_id)
    WINDOW in_order AS (PARTITION BY op.trace_id ORDER BY try_cast(tid AS BIGINT), thread_id)
),

placed AS (
    SELECT
        trace_id,
        thread_id,
        (thread_count + 1) // 2 AS used_count,
        CASE
            WHEN used_count = 1 OR group_count = 1 THEN 1
            WHEN thread_count % 2 = 0 AND group_count - used_count BETWEEN 0 AND 1
                THEN 1 + group_count - used_count + ordinal // 2
        END AS place
    FROM executing
    INNER JOIN (SELECT DISTINCT trace_id, run_id, group_count FROM listed) AS counted
        USING (trace_id)
    WHERE run_id IN (SELECT run_id FROM listed WHERE group_count > 1)
)

SELECT
    trace_id,
    thread_id,
    coalesce(process_group, 'of trace ' || trace_id),
    group_size
FROM placed
LEFT JOIN listed USING (trace_id, place);
