-- The innermost open Python function on a thread, from each start and each end of a call
-- on; outside PyTorch, as in `staging.python_frame`. One of the standard library counts only
-- if no other is open: what a program or a library does with it tells more.
-- One row per thread and time at which that changes.
-- Key: thread_id, at_ns.
CREATE VIEW graph.open_frame (
    -- Host thread.
    thread_id,
    -- [ns] Time of the change.
    at_ns,
    -- The call; NULL if none is open.
    python_frame_id,
    -- Name of the function, with its file and line; NULL if none is open.
    name
) AS
WITH
bound AS (
    SELECT
        thread_id, python_frame_id, name, is_standard, start_ns AS at_ns, 1 AS change,
        end_ns AS other_ns
    FROM staging.python_frame
    UNION ALL
    SELECT thread_id, python_frame_id, name, is_standard, end_ns, -1, start_ns
    FROM staging.python_frame
),

-- Number of open calls from there on, without those of the standard library; if only these
-- are open, their number is negative. At one time the inner end comes first, then the outer
-- starts.
counted AS (
    SELECT
        *,
        coalesce(
            nullif(sum(change) FILTER (NOT is_standard) OVER in_order, 0),
            -sum(change) OVER in_order
        )::BIGINT AS depth,
        row_number() OVER in_order AS position
    FROM bound
    WINDOW in_order AS (
        PARTITION BY thread_id ORDER BY at_ns, change, other_ns DESC, python_frame_id
    )
),

last_change AS (
    SELECT thread_id, at_ns, depth, position
    FROM counted
    QUALIFY row_number() OVER (PARTITION BY thread_id, at_ns ORDER BY position DESC) = 1
)

-- Of the open calls, the innermost is the last to have started at that depth.
SELECT last_change.thread_id, last_change.at_ns, begun.python_frame_id, begun.name
FROM last_change
ASOF LEFT JOIN (
    SELECT * FROM counted WHERE change = 1 AND is_standard = (depth < 0)
) AS begun
    ON
        last_change.thread_id = begun.thread_id
        AND last_change.depth = begun.depth
        AND last_change.position >= begun.position;
