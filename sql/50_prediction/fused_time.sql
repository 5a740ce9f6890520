-- Time of fused GPU work (`prediction.fused_work`): the sum of the times under the
-- scenario's other edits (`prediction.work_edit`), minus that of the saved traffic: for
-- data that one kernel writes for another, the read, and the write if nothing else takes
-- it. An execution graph shows which takes what (`graph.data_edge`); without one, each is
-- assumed to read what the previous one wrote, and nothing else does. The time of traffic
-- is its share of the kernel's roofline (`prediction.kernel_roofline`), in proportion to
-- its time as edited; unknown work saves nothing.
-- Without edits it is empty.
-- One row per edit and GPU op that it fuses with others.
-- Key: scenario, edit, gpu_op_id.
CREATE TABLE prediction.fused_time (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- The GPU op.
    gpu_op_id,
    -- [B] The saved part of its traffic.
    saved_bytes,
    -- [ns] What that subtracts from its measured time.
    saved_ns,
    -- [ns] For the first, the time of all together; NULL for the others.
    fused_ns
) AS
WITH
fused AS (
    SELECT
        work.*,
        row_number() OVER (
            PARTITION BY scenario, edit, first_gpu_op_id ORDER BY work.position
        ) AS ordinal,
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
    FROM prediction.fused_work AS work
    LEFT JOIN prediction.kernel_roofline AS roofline USING (gpu_op_id)
    LEFT JOIN prediction.op_work AS op_work ON roofline.op_id = op_work.op_id
),

-- Data that one writes and another reads.
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
            ELSE given.ordinal + 1 = taken.ordinal
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
        prediction.edited_ns(work_ns, set_ns, factor * ratio, add_ns) AS edited_ns,
        least(coalesce(saved.bytes, 0), traffic_bytes)::BIGINT AS saved_bytes,
        coalesce(
            floor(
                work_ns * (
                    greatest(traffic_ns, other_ns)
                    - greatest(
                        traffic_ns * (1 - coalesce(saved_bytes / nullif(traffic_bytes, 0), 0)),
                        other_ns
                    )
                ) / nullif(roofline_ns, 0)
            ),
            0
        )::BIGINT AS saved_ns
    FROM fused
    LEFT JOIN saved USING (scenario, edit, gpu_op_id)
    INNER JOIN prediction.work_edit AS own
        ON fused.scenario = own.scenario AND fused.gpu_op_id = own.gpu_op_id
)

SELECT
    scenario,
    edit,
    trace_id,
    gpu_op_id,
    saved_bytes,
    saved_ns,
    CASE
        WHEN gpu_op_id = first_gpu_op_id
            THEN coalesce(
                given_ns,
                sum(round(edited_ns * coalesce((work_ns - saved_ns) / nullif(work_ns, 0), 1)))
                    OVER (PARTITION BY scenario, edit, first_gpu_op_id)
            )
    END::BIGINT
FROM timed;
