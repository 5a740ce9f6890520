-- Waits of GPU work for other streams that edits may select by what is awaited: by its
-- name, stream and device, and by the ops around its launch.
-- Without edits it is empty.
-- One row per edit with such fields, waiting GPU op and awaited GPU op.
-- Key: scenario, edit, gpu_op_id, awaited_gpu_op_id.
CREATE TABLE prediction.edit_awaited (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- The GPU work that waits.
    gpu_op_id,
    -- The GPU work that it waits for.
    awaited_gpu_op_id
) AS
WITH
edit AS (
    SELECT scenario, position AS edit, awaited, awaited_op, awaited_stream, awaited_device
    FROM prediction.scenario_edit
    WHERE
        awaited IS NOT NULL
        OR awaited_op IS NOT NULL
        OR awaited_stream IS NOT NULL
        OR awaited_device IS NOT NULL
),

launched_in AS (
    SELECT scenario, edit, work.gpu_op_id
    FROM prediction.edit_text
    INNER JOIN staging.op AS op ON text = op.name AND NOT is_annotation
    INNER JOIN staging.gpu_op AS work ON op.top_op_id = work.top_op_id
    INNER JOIN staging.call AS call ON work.call_id = call.call_id
    WHERE
        field = 'awaited_op'
        AND op.start_ns <= call.start_ns
        AND op.end_ns > call.start_ns
)

SELECT scenario, edit, pair.trace_id, pair.gpu_op_id, awaited_gpu_op_id
FROM edit
CROSS JOIN graph.gpu_awaited AS pair
INNER JOIN staging.gpu_op AS work ON awaited_gpu_op_id = work.gpu_op_id
WHERE
    (
        awaited IS NULL
        OR (scenario, edit, work.name) IN (
            SELECT (scenario, edit, text)
            FROM prediction.edit_text
            WHERE field = 'awaited'
        )
    )
    AND (
        awaited_op IS NULL
        OR (scenario, edit, awaited_gpu_op_id) IN (
            SELECT (scenario, edit, gpu_op_id) FROM launched_in
        )
    )
    AND (
        awaited_stream IS NULL OR EXISTS (
            SELECT 1 FROM prediction.edit_number AS number
            WHERE
                number.scenario = edit.scenario
                AND number.edit = edit.edit
                AND field = 'awaited_stream'
                AND work.stream BETWEEN low AND high
        )
    )
    AND (
        awaited_device IS NULL OR EXISTS (
            SELECT 1 FROM prediction.edit_number AS number
            WHERE
                number.scenario = edit.scenario
                AND number.edit = edit.edit
                AND field = 'awaited_device'
                AND work.device BETWEEN low AND high
        )
    );
