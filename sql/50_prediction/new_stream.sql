-- The streams to which scenarios move or overlap GPU work, other than its own. Removed work
-- does not go there (`prediction.moved_work`).
-- One row per scenario, GPU op and stream: conflicting edits name several.
-- Key: scenario, gpu_op_id, new_stream.
CREATE VIEW prediction.new_stream (
    -- The scenario.
    scenario,
    -- The GPU op.
    gpu_op_id,
    -- The stream; negative for a new one, for everything that an edit overlaps.
    new_stream,
    -- Whether it is overlapped.
    is_overlapped
) AS
SELECT
    scenario,
    gpu_op_id,
    CASE action WHEN 'overlap' THEN coalesce(to_stream, -edit.position) ELSE to_stream END
    AS new_stream,
    bool_or(action = 'overlap')
FROM prediction.edited_work AS work
INNER JOIN prediction.scenario_edit AS edit USING (scenario)
INNER JOIN graph.stream_position AS place USING (gpu_op_id)
WHERE
    work.edit = edit.position
    AND action IN ('move', 'overlap')
    AND new_stream <> place.stream
GROUP BY scenario, gpu_op_id, new_stream;
