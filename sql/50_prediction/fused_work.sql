-- GPU work that edits fuse into one launch: what they choose of kernels and memsets that
-- follow each other on a stream, launched by one thread in one step, where nothing comes
-- between: neither other work on the stream, nor a wait of the thread, nor of the stream.
-- The first of them takes the time of all, less that of the traffic that is saved: of what
-- one writes for another, the reading, and the writing where nothing else takes it. Which
-- takes what is known from an execution graph (`graph.data_edge`); without one each is taken
-- to read what the one before it wrote, and nothing else to. Traffic is worth what the
-- roofline says of the kernel (`prediction.kernel_roofline`); of unknown work none is saved.
-- Without edits it is empty.
-- One row per edit and GPU op that it fuses with others.
-- Key: scenario, edit, gpu_op_id.
CREATE TABLE prediction.fused_work (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace it is from.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- The first of those that become one: itself, if it stays.
    first_gpu_op_id,
    -- Call that launched it.
    call_id,
    -- [B] Of its traffic that which is saved.
    saved_bytes,
    -- [ns] What that takes off its measured time.
    saved_ns,
    -- [ns] Of the first what all take together; NULL of the others.
    fused_ns
) AS
WITH
chosen AS (
    SELECT work.scenario, work.edit, gpu_op_id, work_ns, edit.gpu_ns AS given_ns
    FROM prediction.edited_work AS work
    INNER JOIN prediction.scenario_edit AS edit
        ON work.scenario = edit.scenario AND work.edit = edit.position
    WHERE action = 'fuse'
),

-- Calls that launch one kernel or memset.
single AS (
    SELECT call_id
    FROM staging.gpu_op
    WHERE EXISTS (SELECT 1 FROM chosen)
    GROUP BY call_id
    HAVING
        count(*) = 1
        AND bool_and(kind IN ('kernel', 'memset'))
        AND NOT bool_or(is_collective)
),

wait AS (
    SELECT thread_id, start_ns
    FROM overhead.timeline
    WHERE type LIKE 'wait_%'
),

placed AS (
    SELECT
        chosen.*,
        work.trace_id,
        work.device,
        work.stream,
        work.position,
        work.call_id,
        launch_thread_id,
        launch_start_ns,
        step_id,
        wait.start_ns AS last_wait_ns
    FROM chosen
    INNER JOIN graph.stream_position AS work USING (gpu_op_id)
    SEMI JOIN single ON work.call_id = single.call_id
    ASOF LEFT JOIN staging.step AS step
        ON work.trace_id = step.trace_id AND launch_start_ns >= step.start_ns
    ASOF LEFT JOIN wait
        ON launch_thread_id = wait.thread_id AND launch_start_ns >= wait.start_ns
),

begun AS (
    SELECT
        *,
        gpu_op_id IN (SELECT gpu_op_id FROM graph.gpu_awaited)
        OR coalesce(
            position <> 1 + lag(position) OVER in_order
            OR launch_thread_id IS DISTINCT FROM lag(launch_thread_id) OVER in_order
            OR step_id IS DISTINCT FROM lag(step_id) OVER in_order
            OR last_wait_ns IS DISTINCT FROM lag(last_wait_ns) OVER in_order,
            true
        ) AS is_first
    FROM placed
    WINDOW in_order AS (
        PARTITION BY scenario, edit, trace_id, device, stream ORDER BY position
    )
),

grouped AS (
    SELECT
        *,
        last_value(CASE WHEN is_first THEN gpu_op_id END IGNORE NULLS) OVER (
            PARTITION BY scenario, edit, trace_id, device, stream ORDER BY position
        ) AS first_gpu_op_id
    FROM begun
),

fused AS (
    SELECT
        grouped.*,
        roofline.op_id,
        roofline.traffic_bytes,
        roofline.traffic_ns,
        roofline.other_ns,
        roofline.roofline_ns,
        -- Its part of what its op reads and writes.
        read_bytes * (roofline.traffic_bytes / nullif(read_bytes + written_bytes, 0))
        AS read_bytes,
        written_bytes * (roofline.traffic_bytes / nullif(read_bytes + written_bytes, 0))
        AS written_bytes
    FROM grouped
    LEFT JOIN prediction.kernel_roofline AS roofline USING (gpu_op_id)
    LEFT JOIN prediction.op_work AS work ON roofline.op_id = work.op_id
    QUALIFY count(*) OVER (PARTITION BY scenario, edit, first_gpu_op_id) > 1
),

-- What one writes and another reads.
passed AS (
    SELECT
        given.scenario,
        given.edit,
        given.gpu_op_id,
        taken.gpu_op_id AS taking_gpu_op_id,
        least(given.written_bytes, taken.read_bytes) AS passed_bytes,
        edge.source_op_id IS NULL OR NOT EXISTS (
            SELECT 1
            FROM graph.data_edge AS other
            WHERE
                other.source_op_id = given.op_id
                AND other.target_op_id NOT IN (
                    SELECT inner_work.op_id
                    FROM fused AS inner_work
                    WHERE
                        inner_work.scenario = given.scenario
                        AND inner_work.edit = given.edit
                        AND inner_work.first_gpu_op_id = given.first_gpu_op_id
                        AND inner_work.op_id IS NOT NULL
                )
        ) AS is_within
    FROM fused AS given
    INNER JOIN fused AS taken
        ON
            given.scenario = taken.scenario
            AND given.edit = taken.edit
            AND given.first_gpu_op_id = taken.first_gpu_op_id
            AND given.position < taken.position
    LEFT JOIN graph.data_edge AS edge
        ON given.op_id = edge.source_op_id AND taken.op_id = edge.target_op_id
    WHERE
        given.written_bytes IS NOT NULL
        AND taken.read_bytes IS NOT NULL
        AND CASE
            WHEN given.trace_id IN (SELECT trace_id FROM graph.data_edge)
                THEN edge.source_op_id IS NOT NULL
            ELSE given.position + 1 = taken.position
        END
),

saved AS (
    SELECT scenario, edit, gpu_op_id, sum(bytes) AS bytes
    FROM (
        SELECT scenario, edit, gpu_op_id, max(passed_bytes) AS bytes
        FROM passed
        WHERE is_within
        GROUP BY scenario, edit, gpu_op_id
        UNION ALL
        SELECT scenario, edit, taking_gpu_op_id, passed_bytes
        FROM passed
    )
    GROUP BY scenario, edit, gpu_op_id
),

timed AS (
    SELECT
        fused.*,
        least(coalesce(saved.bytes, 0), traffic_bytes)::BIGINT AS saved_bytes,
        coalesce(
            floor(
                work_ns * (
                    greatest(traffic_ns, other_ns)
                    - greatest(traffic_ns * (1 - saved_bytes / traffic_bytes), other_ns)
                ) / nullif(roofline_ns, 0)
            ),
            0
        )::BIGINT AS saved_ns
    FROM fused
    LEFT JOIN saved USING (scenario, edit, gpu_op_id)
)

SELECT
    scenario,
    edit,
    trace_id,
    gpu_op_id,
    first_gpu_op_id,
    call_id,
    saved_bytes,
    saved_ns,
    CASE
        WHEN gpu_op_id = first_gpu_op_id
            THEN coalesce(
                given_ns,
                sum(work_ns - saved_ns) OVER (PARTITION BY scenario, edit, first_gpu_op_id)
            )
    END::BIGINT
FROM timed;
