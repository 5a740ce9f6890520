-- What takes the time, and where? The critical paths of all steps (of the period of each;
-- without steps, of the trace), grouped by what could be done about it, with the place that
-- has most of it. A last step that is not whole (`staging.whole_step`) is left out, unless
-- it is asked for.
-- One row per run and lever.
-- Key: run_id, lever.
-- Counts: critical_path.path_lever, critical_path.path.
CREATE VIEW question.lever (
    -- The run.
    run_id,
    -- What the time is: `compute` (kernels), `communication` (collectives that move data),
    -- `rank_wait` (collectives that wait for other ranks), `copy` (copies and memsets),
    -- `dispatch` (ops on the host and their launches, until the work starts), `python` (the
    -- host is between ops), `data_loading`, `sync` (host waits and their return),
    -- `gpu_wait` (a stream waits for its previous work, another stream or room) or
    -- `unexplained` (no cause, or one from before the trace).
    lever,
    -- [ns] Time on the critical paths.
    time_ns,
    -- [1] Its share of their time.
    time_share,
    -- Steps that have it on their path; for traces without steps, traces.
    path_count,
    -- [ns] The mean over all paths.
    mean_ns,
    -- [ns] The part of this time in which a device of the trace was busy.
    busy_ns,
    -- Where most of it is: for work and ops the name; between ops the Python function, the
    -- user range (`graph.open_range`) or the module, as far as recorded.
    place,
    -- [ns] Time there.
    place_ns,
    -- The rank that has most of the time there.
    rank,
    -- The step that has most of the time there; NULL for traces without steps.
    step,
    -- The op with most of it; NULL between ops.
    op,
    -- The modules with most of it: equal ones together, as in `question.module_class`,
    -- unless one of them has over two thirds of their time.
    module,
    -- The Python function, with its file and line, in which most of it started; between ops,
    -- the function or user range in which most of it is spent.
    frame
) AS
WITH
own AS MATERIALIZED (
    SELECT *
    FROM critical_path.path_lever
    QUALIFY
        coalesce(step_id IN (SELECT step_id FROM staging.whole_step), true)
        OR NOT bool_or(step_id IN (SELECT step_id FROM staging.whole_step)) OVER (
            PARTITION BY run_id
        )
),

paths AS (
    SELECT
        run_id,
        sum(time_ns) AS time_ns,
        count(DISTINCT {'trace_id': trace_id, 'path_id': path_id}) AS path_count
    FROM own
    GROUP BY run_id
),

summed AS (
    SELECT
        run_id,
        lever,
        sum(own.time_ns)::BIGINT AS time_ns,
        sum(own.time_ns) / nullif(any_value(paths.time_ns), 0) AS time_share,
        count(*) AS path_count,
        round(sum(own.time_ns) / any_value(paths.path_count))::BIGINT AS mean_ns,
        sum(busy_ns)::BIGINT AS busy_ns
    FROM own
    INNER JOIN paths USING (run_id)
    GROUP BY run_id, lever
),

part AS (
    SELECT
        path.run_id,
        path.trace_id,
        path_id,
        path.step,
        critical_path.lever(interval.kind) AS lever,
        name,
        op_name AS op,
        module,
        staging.module_class(module) AS class,
        frame,
        sum(interval.time_ns) AS path_ns
    FROM critical_path.interval_place AS interval
    INNER JOIN critical_path.path AS path USING (variant_id, scope, path_id)
    SEMI JOIN own ON path.trace_id = own.trace_id AND path.path_id = own.path_id
    WHERE variant_id = 0 AND critical_path.bounds_period(scope, path.trace_id)
    GROUP BY ALL
),

-- Equal modules are one place, unless one of them has most of its time.
alike AS (
    SELECT
        *,
        sum(path_ns) OVER (PARTITION BY run_id, lever, name, op, module, frame) AS module_ns,
        sum(path_ns) OVER (PARTITION BY run_id, lever, name, op, class, frame) AS class_ns,
        CASE WHEN 3 * module_ns > 2 * class_ns THEN module ELSE class END AS modules
    FROM part
),

place AS (
    SELECT
        run_id,
        trace_id,
        path_id,
        step,
        lever,
        CASE lever
            WHEN 'python' THEN coalesce(frame, modules)
            WHEN 'data_loading' THEN coalesce(frame, op)
            WHEN 'dispatch' THEN coalesce(op, name)
            ELSE name
        END AS place,
        op,
        modules,
        frame,
        sum(path_ns) AS path_ns
    FROM alike
    GROUP BY ALL
),

placed AS (
    SELECT
        *,
        sum(path_ns) OVER (PARTITION BY run_id, lever, place) AS place_ns,
        sum(path_ns) OVER (PARTITION BY run_id, lever, place, op, modules, frame) AS part_ns,
        2 * sum(CASE WHEN place IS NULL THEN path_ns ELSE 0 END) OVER in_lever
        > sum(path_ns) OVER in_lever AS is_unknown
    FROM place
    WINDOW in_lever AS (PARTITION BY run_id, lever)
),

-- An example from the largest part of the largest known place, if most places are known.
example AS (
    SELECT *
    FROM placed
    QUALIFY row_number() OVER (
        PARTITION BY run_id, lever
        ORDER BY
            (place IS NULL) <> is_unknown, place_ns DESC, place, part_ns DESC, op, modules, frame,
            path_ns DESC, path_id
    ) = 1
)

SELECT
    run_id,
    lever,
    summed.time_ns,
    time_share,
    path_count,
    mean_ns,
    busy_ns,
    place,
    CASE WHEN place IS NOT NULL THEN place_ns END::BIGINT,
    rank,
    example.step,
    op,
    modules,
    frame
FROM summed
INNER JOIN example USING (run_id, lever)
LEFT JOIN staging.trace AS trace USING (run_id, trace_id)
ORDER BY run_id, summed.time_ns DESC, lever;
