-- The innermost open user range on a thread, from each start and each end of one on, where
-- no Python functions were recorded: it is all that tells where the thread is. Ranges that
-- contain a step tell nothing of where in it, and those of messages on the CPU nothing of
-- what the thread does (`staging.is_posted_message`). Data loading is a kind of time, so its
-- ranges have no name.
-- One row per thread and time at which that changes.
-- Key: thread_id, at_ns.
CREATE VIEW graph.open_range (
    -- Host thread.
    thread_id,
    -- [ns] Time of the change.
    at_ns,
    -- `range` and the range's name in quotes, with `*` in place of numbers that are words of
    -- their own; NULL if none is open, or one of data loading is the innermost.
    name
) AS
WITH
range AS (
    SELECT
        range.thread_id,
        annotation_id,
        CASE WHEN loading.annotation_id IS NULL THEN
            regexp_replace(regexp_replace(name, word, '\1*\2', 'g'), word, '\1*\2', 'g')
        END AS name,
        range.start_ns,
        range.end_ns
    FROM staging.annotation AS range
    -- Neighbours share what is between them, so every other one is replaced at a time.
    CROSS JOIN (VALUES ('(^|[^A-Za-z0-9])[0-9]+($|[^A-Za-z0-9])')) AS number (word)
    LEFT JOIN staging.data_loading AS loading USING (annotation_id)
    ASOF LEFT JOIN (SELECT thread_id, start_ns AS step_ns, end_ns AS step_end_ns FROM staging.step)
        AS step
        ON range.thread_id = step.thread_id AND range.start_ns <= step_ns
    ANTI JOIN staging.python_frame AS frame ON range.thread_id = frame.thread_id
    WHERE
        coalesce(range.end_ns < step_end_ns, true)
        AND annotation_id NOT IN (SELECT step_id FROM staging.step)
        AND NOT staging.is_posted_message(name)
),

bound AS (
    SELECT thread_id, annotation_id, name, start_ns AS at_ns, 1 AS change, end_ns AS other_ns
    FROM range
    UNION ALL
    SELECT thread_id, annotation_id, name, end_ns, -1, start_ns
    FROM range
),

-- At one time the inner end comes first, then the outer starts.
counted AS (
    SELECT
        *,
        sum(change) OVER in_order AS depth,
        row_number() OVER in_order AS position
    FROM bound
    WINDOW in_order AS (
        PARTITION BY thread_id ORDER BY at_ns, change, other_ns DESC, annotation_id
    )
),

last_change AS (
    SELECT thread_id, at_ns, depth, position
    FROM counted
    QUALIFY row_number() OVER (PARTITION BY thread_id, at_ns ORDER BY position DESC) = 1
)

-- Of the open ranges, the innermost is the last to have started at that depth.
SELECT
    last_change.thread_id,
    last_change.at_ns,
    'range ''' || begun.name || ''''
FROM last_change
ASOF LEFT JOIN (SELECT * FROM counted WHERE change = 1) AS begun
    ON
        last_change.thread_id = begun.thread_id
        AND last_change.depth = begun.depth
        AND last_change.position >= begun.position;
