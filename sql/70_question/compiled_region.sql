-- What did `torch.compile` compile, are there graph breaks, and was it recompiled? A region
-- is a stretch of code between graph breaks; after a break, the code continues in a
-- separate frame, called from the first. A frame with a version above 0 was recompiled,
-- because no earlier version's guards held.
-- One row per trace and region.
-- Key: trace_id, region.
-- Counts: staging.op.
CREATE VIEW question.compiled_region (
    -- The trace.
    trace_id,
    -- Its rank.
    rank,
    -- Dynamo's name for it: frame and version, such as `0/1`; with a `!` for compiled
    -- autograd.
    region,
    -- The frame.
    frame,
    -- Number of earlier compilations of the frame.
    version,
    -- Versions of the frame that ran in the trace.
    version_count,
    -- Calls.
    call_count,
    -- Those from inside another region: the code after a graph break, or another compiled
    -- function.
    resumed_count,
    -- Steps in which it ran; 0 without steps.
    step_count,
    -- Outermost ops inside: in compiled code these are fused kernels and whatever is not
    -- fused, unless the call of the graph has them.
    op_count,
    -- [ns] Host time of its calls, including the regions called from there.
    time_ns,
    -- Kernels, copies and memsets launched inside.
    gpu_op_count,
    -- [ns] Their time.
    gpu_time_ns,
    -- Launches of CUDA or HIP graphs inside.
    graph_launch_count
) AS
WITH
region AS (
    SELECT
        op_id,
        trace_id,
        thread_id,
        start_ns,
        end_ns,
        regexp_replace(name, '^Torch-Compiled Region: ', '') AS region,
        coalesce(start_ns < max(end_ns) OVER (
            PARTITION BY thread_id ORDER BY start_ns, end_ns DESC, op_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), false) AS is_resumed
    FROM staging.op
    WHERE name LIKE 'Torch-Compiled Region: %'
),

ran AS (
    SELECT
        region.op_id,
        count(*) AS gpu_op_count,
        sum(work.end_ns - work.start_ns) AS gpu_time_ns
    FROM region
    INNER JOIN staging.call AS launch
        ON
            region.thread_id = launch.thread_id
            AND launch.start_ns >= region.start_ns
            AND launch.start_ns < region.end_ns
    INNER JOIN staging.gpu_op AS work ON launch.call_id = work.call_id
    WHERE work.kind <> 'other'
    GROUP BY region.op_id
),

replayed AS (
    SELECT region.op_id, count(*) AS graph_launch_count
    FROM region
    INNER JOIN staging.call AS launch
        ON
            region.thread_id = launch.thread_id
            AND launch.start_ns >= region.start_ns
            AND launch.start_ns < region.end_ns
    WHERE contains(name, 'GraphLaunch')
    GROUP BY region.op_id
),

held AS (
    SELECT parent_op_id AS op_id, count(*) AS op_count
    FROM staging.op
    WHERE
        parent_op_id IN (SELECT op_id FROM region)
        AND NOT is_annotation
        AND name NOT LIKE '## %'
    GROUP BY parent_op_id
),

summed AS (
    SELECT
        region.trace_id,
        region,
        count(*) AS call_count,
        count(*) FILTER (is_resumed) AS resumed_count,
        count(DISTINCT CASE WHEN region.start_ns < step.end_ns THEN step_id END) AS step_count,
        coalesce(sum(op_count), 0)::BIGINT AS op_count,
        sum(region.end_ns - region.start_ns)::BIGINT AS time_ns,
        coalesce(sum(gpu_op_count), 0)::BIGINT AS gpu_op_count,
        coalesce(sum(gpu_time_ns), 0)::BIGINT AS gpu_time_ns,
        coalesce(sum(graph_launch_count), 0)::BIGINT AS graph_launch_count
    FROM region
    LEFT JOIN ran USING (op_id)
    LEFT JOIN replayed USING (op_id)
    LEFT JOIN held USING (op_id)
    ASOF LEFT JOIN staging.step AS step
        ON region.trace_id = step.trace_id AND region.start_ns >= step.start_ns
    GROUP BY region.trace_id, region
)

SELECT
    summed.trace_id,
    rank,
    region,
    regexp_extract(region, '^(.*)/\d+(_\d+)?$', 1) AS frame,
    try_cast(regexp_extract(region, '/(\d+)(_\d+)?$', 1) AS BIGINT),
    count(*) OVER (PARTITION BY summed.trace_id, frame),
    call_count,
    resumed_count,
    step_count,
    op_count,
    time_ns,
    gpu_op_count,
    gpu_time_ns,
    graph_launch_count
FROM summed
INNER JOIN staging.trace AS trace ON summed.trace_id = trace.trace_id
ORDER BY summed.trace_id, time_ns DESC, region;
