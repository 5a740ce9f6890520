-- CPU operator events.
-- One row per op.
-- Key: op_id.
CREATE TABLE staging.op (
    -- The op's event.
    op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- Host thread.
    thread_id,
    -- Name.
    name,
    -- [ns] Start.
    start_ns,
    -- [ns] End.
    end_ns,
    -- Innermost op that was open on the thread when it started.
    parent_op_id,
    -- Outermost enclosing op that is not a user range, or itself; NULL for user ranges.
    top_op_id,
    -- Whether it is a user range recorded as an op.
    is_annotation,
    -- Whether it is a top-level op: no enclosing op except user ranges.
    is_top_level,
    -- Identifier given by the profiler.
    external_id,
    -- Sequence number that a forward op shares with its backward op.
    sequence_number,
    -- For an op with such a number: 0 for a forward op; for a backward op the thread of the
    -- forward op, as the profiler numbers it.
    forward_thread,
    -- Dimensions of its arguments, as a JSON list of lists.
    input_dims,
    -- Types of its arguments, as a JSON list.
    input_types,
    -- Strides of its arguments, as a JSON list of lists, in elements; NULL if not recorded
    -- (until 2023). A dimension along which a tensor is expanded has 0.
    input_strides,
    -- Values of its scalar arguments, as a JSON list.
    concrete_inputs
) AS
SELECT
    event_id AS op_id,
    staging.thread.run_id,
    trace_id,
    thread_id,
    event.name,
    start_ns,
    end_ns,
    parent_event_id AS parent_op_id,
    CASE WHEN NOT is_annotation THEN coalesce(top_event_id, event_id) END AS top_op_id,
    is_annotation,
    NOT is_annotation AND top_event_id IS NULL AS is_top_level,
    external_id,
    sequence_number,
    forward_thread,
    input_dims,
    input_types,
    input_strides,
    concrete_inputs
FROM staging.host_event AS event
INNER JOIN staging.thread USING (trace_id, pid, tid)
LEFT JOIN raw.nesting USING (trace_id, event_id)
WHERE kind = 'op';
