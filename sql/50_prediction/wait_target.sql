-- What a thread waits for in a span of host time, in the terms of edits: `thread` (another
-- thread), `rank` (another rank's) or `host` (GPU work).
CREATE MACRO prediction.wait_target(
    -- The span's overhead type, `wait_thread` and so on.
    type
) AS (
    CASE type WHEN 'wait_thread' THEN 'thread' WHEN 'wait_rank' THEN 'rank' ELSE 'host' END
);
