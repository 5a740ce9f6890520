-- Events with a duration on host threads: ops, calls and user ranges.
-- One row per event.
-- Key: event_id.
CREATE VIEW staging.host_event (
    -- Position of the event in the database.
    event_id,
    -- The trace.
    trace_id,
    -- Process.
    pid,
    -- Thread.
    tid,
    -- `op`, `call` or `annotation`.
    kind,
    -- Whether it marks a step: by the name of the profiler's marks, or that given by the user.
    is_step_mark,
    -- Whether it is a user range; until 2021 these were recorded as ops, and are known by
    -- their names or because the user named them as steps. So is what `torch.compile` calls
    -- a region: besides compiled graphs, it has in it the Python code at graph breaks, and all
    -- that runs after them, such as a backward pass. Where calls of compiled graphs were not
    -- recorded and there are Triton kernels, a region is an op.
    is_annotation,
    -- Name; of PyTorch's own ops without the overload (`aten::add.Tensor`), which is only
    -- recorded with `capture_overload_names`.
    name,
    -- [ns] Start, from the time base of the trace.
    start_ns,
    -- [ns] End, from the time base of the trace.
    end_ns,
    -- Identifier given by the profiler: of the op, or of the call's correlation.
    external_id,
    -- Identifier in the execution graph recorded at the same time; 0 outside of it.
    record_function_id,
    -- Identifier shared by a call and the GPU work that it launches.
    correlation,
    -- Sequence number that a forward op shares with its backward op.
    sequence_number,
    -- For an op with such a number: 0 for a forward op; for a backward op the thread of the
    -- forward op, as the profiler numbers it.
    forward_thread,
    -- Dimensions of an op's arguments, as a JSON list of lists.
    input_dims,
    -- Types of an op's arguments, as a JSON list.
    input_types,
    -- Strides of an op's arguments, as a JSON list of lists, in elements.
    input_strides,
    -- Values of an op's scalar arguments, as a JSON list.
    concrete_inputs,
    -- Name of the kernel that a call launches, if the profiler records it (AMD).
    launched_name,
    -- Arguments as JSON text.
    args
) AS
WITH
-- Of traces whose steps the user named. Each name is compared once.
named AS (
    SELECT
        trace_id,
        slice.name,
        regexp_full_match(slice.name, coalesce(any_value(step_from), any_value(step_mark)))
        AS is_mark
    FROM staging.slice AS slice
    INNER JOIN raw.trace USING (trace_id)
    WHERE coalesce(step_from, step_mark) IS NOT NULL
    GROUP BY trace_id, slice.name
),

-- Traces whose regions are all that tells of compiled graphs: until 2024 their calls were not
-- recorded, so kernels that a region launches are its own.
uncalled AS (
    SELECT trace_id
    FROM staging.slice
    WHERE
        starts_with(name, 'triton_')
        OR starts_with(name, '## Call CompiledFxGraph')
        OR name = 'AOTDispatcher Runtime Wrapper Prologue'
    GROUP BY trace_id
    HAVING bool_and(starts_with(name, 'triton_'))
),

event AS (
    SELECT
        slice.*,
        CASE
            WHEN staging.is_posted_message(name) THEN 'annotation'
            WHEN cat IN ('cpu_op', 'Operator') THEN 'op'
            WHEN staging.is_process_group_op(name) THEN 'op'
            WHEN starts_with(name, '## Call CompiledFxGraph') THEN 'op'
            WHEN cat = 'user_annotation' THEN 'annotation'
            ELSE 'call'
        END AS kind,
        kind <> 'call' AND coalesce(is_mark, name LIKE 'ProfilerStep#%', false) AS is_step_mark,
        kind = 'annotation'
        OR (
            kind = 'op'
            AND NOT starts_with(coalesce(name, ''), '## Call CompiledFxGraph')
            AND (
                is_step_mark
                OR uncalled.trace_id IS NULL AND starts_with(name, 'Torch-Compiled Region: ')
                OR regexp_matches(
                    coalesce(name, ''),
                    '^(enumerate\(Data(Loader|Pipe)\)|Optimizer\.(step|zero_grad)#|## |__|\[pl\]'
                    '|ProfilerStep#|module::|nn\.Module: |DLRM |DistributedDataParallel'
                    '|\[(param|pytorch)\|)'
                )
            )
        ) AS is_annotation
    FROM staging.slice AS slice
    LEFT JOIN named USING (trace_id, name)
    LEFT JOIN uncalled USING (trace_id)
    WHERE staging.is_host_category(cat) AND staging.gpu_op_kind(cat, args) IS NULL
),

-- All needed arguments at once: each extraction parses them again. After the conditions
-- that readers have on the kind of event, so that only the events they want are parsed.
parsed AS (
    SELECT
        *,
        args ->> [
            '$."External id"', '$."external id"', '$."Record function id"',
            '$.correlation', '$."Sequence number"',
            '$."Input Dims"', '$."Input dims"', '$."Input type"', '$."Concrete Inputs"',
            '$.kernel', '$."Fwd thread id"', '$."Input Strides"'
        ] AS argument
    FROM event
)

SELECT
    event_id,
    trace_id,
    pid,
    tid,
    kind,
    is_step_mark,
    is_annotation,
    CASE
        -- Few names have a point.
        WHEN contains(name, '.') AND kind = 'op' AND starts_with(name, 'aten::')
            AND NOT is_annotation
            THEN regexp_replace(name, '^(\w+::\w+)\.[a-zA-Z_]\w*$', '\1')
        ELSE name
    END,
    start_ns,
    end_ns,
    coalesce(try_cast(argument[1] AS BIGINT), try_cast(argument[2] AS BIGINT)),
    try_cast(argument[3] AS BIGINT),
    try_cast(argument[4] AS BIGINT),
    try_cast(argument[5] AS BIGINT),
    try_cast(argument[11] AS BIGINT),
    -- Anything that is not a list is ignored, such as text that is not JSON.
    CASE WHEN coalesce(argument[6], argument[7]) LIKE '[%' THEN
        try_cast(coalesce(argument[6], argument[7]) AS JSON)
    END,
    CASE WHEN argument[8] LIKE '[%' THEN try_cast(argument[8] AS JSON) END,
    CASE WHEN argument[12] LIKE '[%' THEN try_cast(argument[12] AS JSON) END,
    CASE WHEN argument[9] LIKE '[%' THEN try_cast(argument[9] AS JSON) END,
    argument[10],
    args
FROM parsed;
