-- GPU work that consumes overlapped GPU work, and so waits for it: in the op or user range
-- that the edit names, the first one that starts after its launch and launches something,
-- by the first work on each stream; if the edit names none, the work of ops that take a
-- tensor of the op that launched it (`graph.data_edge`).
-- Without edits it is empty.
-- One row per edit, overlapped GPU op, and consuming GPU op.
-- Key: scenario, edit, gpu_op_id, consumer_gpu_op_id.
CREATE TABLE prediction.overlap_consumer (
    -- The scenario.
    scenario,
    -- Ordinal of the edit in its scenario, from 1.
    edit,
    -- The trace.
    trace_id,
    -- The overlapped GPU op.
    gpu_op_id,
    -- The consuming GPU op.
    consumer_gpu_op_id
) AS
WITH
overlapped AS (
    SELECT
        edited.scenario,
        edited.edit,
        edit.until,
        work.trace_id,
        work.gpu_op_id,
        work.call_id,
        work.launch_start_ns
    FROM prediction.edited_work AS edited
    INNER JOIN prediction.scenario_edit AS edit
        ON edited.scenario = edit.scenario AND edited.edit = edit.position
    INNER JOIN graph.stream_position AS work ON edited.gpu_op_id = work.gpu_op_id
    WHERE action = 'overlap'
),

named AS (
    SELECT scenario, edit, op_id AS named_id, thread_id, start_ns, end_ns
    FROM prediction.edit_text
    INNER JOIN staging.op ON text = name
    WHERE field = 'until' AND text_kind = 'op' AND NOT is_annotation
    UNION ALL
    SELECT scenario, edit, annotation_id, thread_id, start_ns, end_ns
    FROM prediction.edit_text
    INNER JOIN staging.annotation ON text = name
    WHERE field = 'until' AND text_kind = 'annotation'
),

-- The first work on each stream, for each named range.
begun AS (
    SELECT scenario, edit, named_id, named.start_ns, named.end_ns, work.trace_id, gpu_op_id
    FROM named
    INNER JOIN graph.stream_position AS work
        ON
            named.thread_id = launch_thread_id
            AND launch_start_ns >= named.start_ns
            AND launch_start_ns < named.end_ns
    QUALIFY row_number() OVER (
        PARTITION BY scenario, edit, named_id, device, stream ORDER BY launch_start_ns, position
    ) = 1
),

-- Of those that start at one time, the outermost.
known AS (
    SELECT scenario, edit, trace_id, start_ns, arg_max(named_id, end_ns) AS named_id
    FROM begun
    GROUP BY scenario, edit, trace_id, start_ns
),

taken AS (
    SELECT overlapped.scenario, overlapped.edit, overlapped.gpu_op_id, named_id
    FROM overlapped
    ASOF INNER JOIN known
        ON
            overlapped.scenario = known.scenario
            AND overlapped.edit = known.edit
            AND overlapped.trace_id = known.trace_id
            AND overlapped.launch_start_ns < known.start_ns
)

SELECT scenario, edit, trace_id, taken.gpu_op_id, begun.gpu_op_id
FROM taken
INNER JOIN begun USING (scenario, edit, named_id)
UNION ALL
SELECT scenario, edit, overlapped.trace_id, overlapped.gpu_op_id, work.gpu_op_id
FROM overlapped
INNER JOIN staging.call AS call ON overlapped.call_id = call.call_id
INNER JOIN graph.data_edge ON source_op_id = call.op_id
INNER JOIN staging.call AS taking ON target_op_id = taking.op_id
INNER JOIN graph.stream_position AS work ON taking.call_id = work.call_id
WHERE until IS NULL AND work.launch_start_ns > overlapped.launch_start_ns
QUALIFY row_number() OVER (
    PARTITION BY scenario, edit, overlapped.gpu_op_id, device, stream
    ORDER BY work.launch_start_ns, position
) = 1;
