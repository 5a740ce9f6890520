-- When a rank was ready for a collective, and what that depended on. One on a GPU that
-- started when the previous collective on its stream ended may have been ready sooner: when
-- its launch and its other waits would have let it start. One on the CPU was ready when it
-- started.
-- One row per kernel of a collective, or op of one on the CPU.
-- Key: node_id.
CREATE VIEW critical_path.collective_arrival (
    -- The kernel, or the op.
    node_id,
    -- The trace.
    trace_id,
    -- Whether it started when the previous collective on its stream ended.
    is_queued,
    -- [ns] When the rank was ready: at the start of the kernel, or earlier if it was
    -- queued.
    ready_ns,
    -- The collective of the trace that this depended on; NULL if none.
    source_node_id
) AS
WITH
part AS (
    SELECT
        work.*,
        cause = 'stream' AND before.node_id IS NOT NULL AS is_queued
    FROM staging.collective AS collective
    INNER JOIN graph.stream_position AS work ON collective.node_id = work.gpu_op_id
    INNER JOIN graph.gpu_cause AS caused ON work.gpu_op_id = caused.gpu_op_id
    LEFT JOIN staging.collective AS before ON cause_gpu_op_id = before.node_id
),

-- What else a queued collective waited for: its launch, and work on other streams.
candidate AS (
    SELECT
        gpu_op_id,
        part.trace_id,
        launch_start_ns + submit_ns + launch_delay_ns AS ready_ns,
        -resume_id AS node
    FROM part
    INNER JOIN prediction.gpu_delay USING (gpu_op_id)
    ASOF LEFT JOIN graph.last_resume AS latest
        ON
            part.launch_thread_id = latest.thread_id
            AND part.launch_start_ns >= latest.resume_ns
    WHERE is_queued AND launch_start_ns IS NOT NULL
    UNION ALL
    SELECT part.gpu_op_id, part.trace_id, awaited.end_ns + delay_ns, awaited_gpu_op_id
    FROM part
    INNER JOIN prediction.gpu_awaited AS wait ON part.gpu_op_id = wait.gpu_op_id
    INNER JOIN staging.gpu_op AS awaited ON awaited_gpu_op_id = awaited.gpu_op_id
    WHERE is_queued
    UNION ALL
    SELECT gpu_op_id, trace_id, start_ns, gpu_op_id
    FROM part
    WHERE NOT is_queued
),

latest AS (
    SELECT
        gpu_op_id,
        trace_id,
        max(ready_ns) AS ready_ns,
        arg_max(node, (ready_ns, node)) AS node
    FROM candidate
    GROUP BY gpu_op_id, trace_id
)

SELECT
    part.gpu_op_id,
    part.trace_id,
    is_queued,
    least(coalesce(ready_ns, part.start_ns), part.start_ns - is_queued::INTEGER),
    CASE
        WHEN latest.node <> part.gpu_op_id AND awaited.node_id IS NOT NULL THEN latest.node
        ELSE collective_id
    END
FROM part
LEFT JOIN latest ON part.gpu_op_id = latest.gpu_op_id
LEFT JOIN staging.collective AS awaited ON latest.node = awaited.node_id
LEFT JOIN critical_path.collective_before AS earlier
    ON part.trace_id = earlier.trace_id AND latest.node = earlier.node
UNION ALL
SELECT collective.node_id, collective.trace_id, false, collective.start_ns, earlier.collective_id
FROM staging.collective AS collective
SEMI JOIN staging.op AS op ON collective.node_id = op.op_id
LEFT JOIN critical_path.collective_before AS earlier
    ON collective.trace_id = earlier.trace_id AND collective.node_id = earlier.node;
