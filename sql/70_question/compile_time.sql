-- What does `torch.compile` cost on the host while a trace is recorded? Compilations
-- (recompilations, in a warm loop), guard checks, the code around regions, and recording
-- and launching CUDA graphs.
-- One row per step and kind of time, and per trace for time outside steps.
-- Key: trace_id, step_id, kind.
CREATE VIEW question.compile_time (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Step; NULL outside of steps.
    step_id,
    -- Number of the step; NULL outside of steps.
    step,
    -- `compile` (Dynamo and its backend), `guards` (looking up valid compiled code),
    -- `prologue` (bytecode before a region's graph), `region` (compiled code),
    -- `graph_record` or `graph_launch` (CUDA and HIP graphs).
    kind,
    -- Number of occurrences; one inside another of its kind is part of that.
    event_count,
    -- [ns] Host time; kinds may nest.
    time_ns,
    -- [1] Its share of the step's mark; NULL outside of steps.
    time_share
) AS
WITH
named AS (
    SELECT
        trace_id,
        thread_id,
        start_ns,
        end_ns,
        CASE
            WHEN name LIKE 'Torch-Compiled Region: %' THEN 'region'
            WHEN name = 'TorchDynamo Cache Lookup' THEN 'guards'
            WHEN name = 'Pregraph bytecode' THEN 'prologue'
            WHEN name LIKE 'CUDAGraphNode.record%' THEN 'graph_record'
            WHEN regexp_matches(name, '\(dynamo_timed\)$') THEN 'compile'
        END AS kind
    FROM (
        SELECT trace_id, thread_id, start_ns, end_ns, name FROM staging.op
        UNION ALL
        SELECT trace_id, thread_id, start_ns, end_ns, name FROM staging.annotation
    )
    UNION ALL
    SELECT
        trace_id,
        thread_id,
        start_ns,
        end_ns,
        CASE WHEN contains(name, 'GraphLaunch') THEN 'graph_launch' END
    FROM staging.call
),

-- The outermost of each kind.
outermost AS (
    SELECT *
    FROM (SELECT DISTINCT * FROM named WHERE kind IS NOT NULL)
    QUALIFY
        coalesce(start_ns >= max(end_ns) OVER (
            PARTITION BY thread_id, kind ORDER BY start_ns, end_ns DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), true)
),

placed AS (
    SELECT
        outermost.trace_id,
        kind,
        outermost.end_ns - outermost.start_ns AS time_ns,
        CASE WHEN outermost.start_ns < step.end_ns THEN step_id END AS step_id
    FROM outermost
    ASOF LEFT JOIN staging.step AS step
        ON outermost.trace_id = step.trace_id AND outermost.start_ns >= step.start_ns
)

SELECT
    placed.trace_id,
    rank,
    placed.step_id,
    step,
    kind,
    count(*),
    sum(time_ns)::BIGINT AS time_ns,
    sum(time_ns) / nullif(any_value(step.end_ns - step.start_ns), 0)
FROM placed
INNER JOIN staging.trace AS trace ON placed.trace_id = trace.trace_id
LEFT JOIN staging.step AS step ON placed.step_id = step.step_id
GROUP BY placed.trace_id, rank, placed.step_id, step, kind
ORDER BY placed.trace_id, step, placed.step_id, time_ns DESC, kind;
