-- Changes of the time of GPU work by scenarios: the set value, then the product of the
-- factors, then the sum of the additions (`prediction.work_edit`). For work that is fused,
-- the first is set to the time of all as edited (`prediction.fused_time`), and the others
-- are removed; if the edit gives that time, the edits of the first multiply and add to it.
-- One row per variant and GPU op that it changes.
-- Key: variant_id, gpu_op_id.
CREATE VIEW prediction.gpu_edit (
    -- Method and scenario, as in `prediction.variant`.
    variant_id,
    -- The GPU op.
    gpu_op_id,
    -- Whether it is removed (`prediction.removed_work`).
    is_removed,
    -- Edits that set its time: at most one is allowed.
    set_count,
    -- Streams that it moves to: at most one is allowed.
    stream_count,
    -- Whether something is inserted next to it, and not next to fused work.
    is_anchor,
    -- [ns] The time it is set to; NULL: none.
    set_ns,
    -- The factor for its time.
    factor,
    -- [ns] What is added after that.
    add_ns
) AS
WITH
fused AS (
    SELECT
        scenario,
        gpu_op_id,
        bool_or(gpu_op_id <> first_gpu_op_id) AS is_gone,
        any_value(fused_ns) AS fused_ns,
        any_value(CASE WHEN gpu_op_id = first_gpu_op_id THEN given_ns END) AS given_ns
    FROM prediction.fused_work
    INNER JOIN prediction.fused_time USING (scenario, edit, gpu_op_id)
    GROUP BY scenario, gpu_op_id
)

SELECT
    variant_id,
    edit.gpu_op_id,
    is_removed OR coalesce(is_gone, false),
    set_count + CASE WHEN given_ns IS NULL THEN 0 ELSE 1 END,
    stream_count,
    is_anchor AND NOT coalesce(is_gone, false),
    coalesce(fused_ns, set_ns),
    CASE
        WHEN given_ns IS NOT NULL THEN factor
        WHEN fused_ns IS NOT NULL THEN 1
        ELSE factor * ratio
    END,
    CASE WHEN fused_ns IS NOT NULL AND given_ns IS NULL THEN 0 ELSE add_ns END
FROM prediction.work_edit AS edit
LEFT JOIN fused USING (scenario, gpu_op_id)
INNER JOIN prediction.variant AS variant ON edit.scenario = variant.scenario;
