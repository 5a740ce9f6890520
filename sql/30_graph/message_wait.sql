-- Where threads wait for sends and receives that they have posted on the CPU
-- (`staging.posted_message`): the range of a message ends when its thread has waited for it.
-- With Python stacks, the call of `wait` shows from when; without, the thread may have waited
-- since its last op, or since the last message that it waited for.
-- One row per message whose range ends between top-level ops of its thread.
-- Key: annotation_id.
CREATE TABLE graph.message_wait (
    -- The range of the message.
    annotation_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The thread.
    thread_id,
    -- [ns] Start of the wait, at the earliest.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Whether the call of `wait` is recorded: the wait starts there.
    is_recorded,
    -- [ns] When the message was posted, at the earliest.
    posted_ns
) AS
WITH
-- Of messages that end together, the first one posted.
message AS (
    SELECT message.*
    FROM staging.posted_message AS message
    QUALIFY row_number() OVER (
        PARTITION BY thread_id, end_ns ORDER BY start_ns, annotation_id
    ) = 1
),

gap AS (
    SELECT
        message.*,
        greatest(
            before.end_ns,
            post.end_ns,
            message.start_ns,
            lag(message.end_ns) OVER (
                PARTITION BY message.thread_id ORDER BY message.end_ns
            )
        ) AS first_ns,
        message.start_ns AS posted_ns
    FROM message
    ASOF LEFT JOIN graph.top_level_event AS before
        ON message.thread_id = before.thread_id AND message.end_ns >= before.start_ns
    LEFT JOIN graph.top_level_event AS post ON message.top_op_id = post.node_id
    WHERE coalesce(before.end_ns <= message.end_ns, true)
)

SELECT
    annotation_id,
    run_id,
    gap.trace_id,
    gap.thread_id,
    CASE WHEN call.end_ns >= gap.end_ns THEN greatest(call.start_ns, first_ns) ELSE first_ns END,
    gap.end_ns,
    coalesce(call.end_ns >= gap.end_ns, false),
    posted_ns
FROM gap
INNER JOIN staging.thread AS thread ON gap.thread_id = thread.thread_id
ASOF LEFT JOIN staging.work_wait AS call
    ON gap.thread_id = call.thread_id AND gap.end_ns >= call.start_ns
WHERE gap.end_ns > first_ns;
