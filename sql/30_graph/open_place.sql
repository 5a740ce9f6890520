-- Where a host thread is: the innermost open Python function (outside PyTorch, as in
-- `staging.python_frame`) and module call, from each time at which one of them changes on;
-- on threads without recorded functions the innermost open user range (`graph.open_range`).
-- One row per thread with functions, ranges or modules, and time of change; the first is
-- before any time.
-- Key: thread_id, position.
CREATE VIEW graph.open_place (
    -- Host thread.
    thread_id,
    -- Number of the row on its thread, in the order of time, from 1.
    position,
    -- [ns] Time of the change.
    at_ns,
    -- [ns] Time of the next change; after any time for the last.
    until_ns,
    -- The function, with its file and line, or the range; NULL if none is open.
    frame,
    -- The module call; NULL if none is open.
    module_call_id
) AS
WITH
-- In structs, because NULL says that none is open.
bound AS (
    SELECT thread_id, at_ns, {'name': name} AS frame, NULL AS module FROM graph.open_frame
    UNION ALL
    SELECT thread_id, at_ns, {'name': name}, NULL FROM graph.open_range
    UNION ALL
    SELECT thread_id, at_ns, NULL, {'id': module_call_id} FROM graph.open_module
),

change AS (
    SELECT thread_id, at_ns, any_value(frame) AS frame, any_value(module) AS module
    FROM bound
    GROUP BY thread_id, at_ns
    UNION ALL
    SELECT DISTINCT thread_id, -(1::BIGINT << 62), {'name': NULL}, {'id': NULL}
    FROM bound
)

SELECT
    thread_id,
    row_number() OVER in_order,
    at_ns,
    lead(at_ns, 1, 1::BIGINT << 62) OVER in_order,
    (last_value(frame IGNORE NULLS) OVER in_order)['name'],
    (last_value(module IGNORE NULLS) OVER in_order)['id']
FROM change
WINDOW in_order AS (PARTITION BY thread_id ORDER BY at_ns);
