-- Calls of PyTorch modules (`nn.Module`), which the profiler records together with Python
-- stacks. Calls that took no time are excluded: nothing can be inside them.
-- One row per call.
-- Key: module_call_id.
CREATE TABLE staging.module_call (
    -- The call's event.
    module_call_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Name: the module's class, and its number within that class.
    name,
    -- The names of all enclosing modules, from the outermost inwards, and its own.
    path,
    -- The enclosing call.
    parent_module_call_id,
    -- Number of enclosing calls.
    depth,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns
) AS
WITH RECURSIVE
module_call AS (
    SELECT
        event_id AS module_call_id,
        staging.thread.run_id,
        trace_id,
        thread_id,
        regexp_replace(slice.name, '^nn\.Module: ', '') AS name,
        start_ns,
        end_ns
    FROM staging.slice AS slice
    INNER JOIN staging.thread USING (trace_id, pid, tid)
    WHERE
        cat = 'python_function'
        AND slice.name LIKE 'nn.Module: %'
        AND end_ns > start_ns
        AND trace_id IN (SELECT trace_id FROM staging.computing)
),

bound AS (
    SELECT thread_id, module_call_id, start_ns AS at_ns, 1 AS change, end_ns AS other_ns
    FROM module_call
    UNION ALL
    SELECT thread_id, module_call_id, end_ns, -1, start_ns
    FROM module_call
),

-- Open calls: at equal times the inner one ends first, then the outer one starts.
begun AS (
    SELECT *
    FROM (
        SELECT
            *,
            (sum(change) OVER in_order)::BIGINT - 1 AS depth,
            row_number() OVER in_order AS position
        FROM bound
        WINDOW in_order AS (
            PARTITION BY thread_id ORDER BY at_ns, change, other_ns DESC, module_call_id
        )
    )
    WHERE change = 1
),

nested AS (
    SELECT
        module_call.*,
        inner_call.depth,
        outer_call.module_call_id AS parent_module_call_id
    FROM begun AS inner_call
    INNER JOIN module_call USING (module_call_id)
    ASOF LEFT JOIN begun AS outer_call
        ON
            inner_call.thread_id = outer_call.thread_id
            AND inner_call.depth - 1 = outer_call.depth
            AND inner_call.position > outer_call.position
),

with_path AS (
    SELECT *, name AS path
    FROM nested
    WHERE depth = 0
    UNION ALL
    SELECT nested.*, with_path.path || '/' || nested.name
    FROM with_path
    INNER JOIN nested ON with_path.module_call_id = nested.parent_module_call_id
)

SELECT
    module_call_id,
    run_id,
    trace_id,
    thread_id,
    name,
    path,
    parent_module_call_id,
    depth,
    start_ns,
    end_ns
FROM with_path;
