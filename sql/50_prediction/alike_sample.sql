-- Pieces of host time to learn from, each under all that it can be alike in, from coarse
-- to fine: the type; type and name; these, role of the thread and shapes; these and the
-- place in the step. Pieces of one pool and key are alike. Across runs only overheads are
-- learnt: not data loading nor idle time, nor gaps of 200 us and more, which are the
-- program's (Lin et al. 2022 leave these out too).
-- One row per place to learn from that a rung needs, piece and fineness.
-- Key: host_from, thread_id, position, fineness.
CREATE VIEW prediction.alike_sample (
    -- Where is learnt from, as in `prediction.rung`.
    host_from,
    -- Who learns together: a run, or a trace (of one's own, or the first with such a GPU).
    pool_id,
    -- The step, trace or run of the pool that a piece of it may not learn from.
    excluded_id,
    -- 1 to 4, from coarse to fine.
    fineness,
    -- Digest of what the piece is alike in.
    key,
    -- That of the next finer; NULL of the finest.
    finer_key,
    -- The run it is of.
    run_id,
    -- The trace it is from.
    trace_id,
    -- The step.
    step_id,
    -- Host thread.
    thread_id,
    -- Place of the piece on its thread.
    position,
    -- Its type.
    type,
    -- Role of the host thread.
    role,
    -- [ns] Duration.
    sample_ns
) AS
WITH
wanted AS (
    SELECT DISTINCT host_from
    FROM prediction.rung
    WHERE is_simulated AND host_from IS NOT NULL
),

trace AS (
    SELECT
        trace.trace_id,
        min(trace.trace_id) OVER (PARTITION BY any_value(device.name ORDER BY device))
        AS first_trace_id
    FROM staging.trace AS trace
    LEFT JOIN staging.device AS device ON trace.trace_id = device.trace_id
    GROUP BY trace.trace_id
),

sample AS (
    SELECT
        host_from,
        CASE host_from
            WHEN 'other_steps' THEN sample.trace_id
            WHEN 'other_runs' THEN first_trace_id
            ELSE run_id
        END AS pool_id,
        CASE host_from
            WHEN 'other_steps' THEN step_id
            WHEN 'other_ranks' THEN sample.trace_id
            WHEN 'other_runs' THEN run_id
        END AS excluded_id,
        sample.*,
        [
            hash(type),
            hash(type, name),
            hash(type, name, role, shapes),
            hash(type, name, role, shapes, place, place_count)
        ] AS keys,
        unnest([1, 2, 3, 4]) AS fineness
    FROM overhead.sample AS sample
    INNER JOIN trace ON sample.trace_id = trace.trace_id
    CROSS JOIN wanted
    WHERE
        CASE host_from
            WHEN 'other_runs' THEN type LIKE 'T_' AND (type <> 'T1' OR sample_ns < 200_000)
            ELSE sample.trace_id IN (SELECT trace_id FROM staging.computing)
        END
)

SELECT
    host_from,
    pool_id,
    excluded_id,
    fineness,
    keys[fineness],
    keys[fineness + 1],
    run_id,
    trace_id,
    step_id,
    thread_id,
    position,
    type,
    role,
    sample_ns
FROM sample;
