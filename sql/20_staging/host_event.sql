-- Events with a duration on host threads: ops, calls and user ranges.
-- One row per event.
-- Key: event_id.
CREATE VIEW staging.host_event (
    -- Position of the event in the database.
    event_id,
    -- The trace it is from.
    trace_id,
    -- Process.
    pid,
    -- Thread.
    tid,
    -- `op`, `call` or `annotation`.
    kind,
    -- Whether it is a user range; until 2021 these were recorded as ops.
    is_annotation,
    -- Name.
    name,
    -- [ns] Begin, from the time base of the trace.
    start_ns,
    -- [ns] End, from the time base of the trace.
    end_ns,
    -- Identifier that the profiler gave it: of the op, or of the call's correlation.
    external_id,
    -- Identifier in the execution graph that was recorded along; 0 outside of it.
    record_function_id,
    -- Identifier that a call shares with the GPU work that it launches.
    correlation,
    -- Sequence number that a forward op shares with its backward op.
    sequence_number,
    -- Of an op with such a number: 0 if it is a forward op, of a backward op the thread of
    -- the forward op, as the profiler numbers those.
    forward_thread,
    -- Dimensions of an op's arguments, as a JSON list of lists.
    input_dims,
    -- Types of an op's arguments, as a JSON list.
    input_types,
    -- Values of an op's scalar arguments, as a JSON list.
    concrete_inputs,
    -- Name of the kernel that a call launches, where the profiler says it (AMD).
    launched_name,
    -- Arguments as JSON text.
    args
) AS
WITH
-- All that is wanted of the arguments at once: each extraction reads them anew.
event AS (
    SELECT
        *,
        args ->> [
            '$."External id"', '$."external id"', '$."Record function id"',
            '$.correlation', '$."Sequence number"',
            '$."Input Dims"', '$."Input dims"', '$."Input type"', '$."Concrete Inputs"',
            '$.kernel', '$."Fwd thread id"'
        ] AS argument
    FROM staging.slice
    WHERE
        cat IN ('cpu_op', 'Operator', 'user_annotation', 'Runtime')
        -- Whichever vendor's: `cuda_runtime`, `xpu_driver`, `privateuse1_runtime`.
        OR suffix(cat, '_runtime') OR suffix(cat, '_driver')
)

SELECT
    event_id,
    trace_id,
    pid,
    tid,
    CASE
        WHEN cat IN ('cpu_op', 'Operator') THEN 'op'
        WHEN staging.is_process_group_op(name) THEN 'op'
        WHEN cat = 'user_annotation' THEN 'annotation'
        ELSE 'call'
    END AS kind,
    kind = 'annotation'
    OR (
        kind = 'op'
        AND regexp_matches(
            coalesce(name, ''),
            '^(ProfilerStep#|enumerate\(Data(Loader|Pipe)\)|Optimizer\.(step|zero_grad)#|## '
            '|__|module::|nn\.Module: |DLRM |DistributedDataParallel|\[(param|pytorch)\|)'
        )
    ),
    name,
    start_ns,
    end_ns,
    coalesce(try_cast(argument[1] AS BIGINT), try_cast(argument[2] AS BIGINT)),
    try_cast(argument[3] AS BIGINT),
    try_cast(argument[4] AS BIGINT),
    try_cast(argument[5] AS BIGINT),
    try_cast(argument[11] AS BIGINT),
    -- What is no list is none: a text that is no JSON, say.
    CASE WHEN coalesce(argument[6], argument[7]) LIKE '[%' THEN
        try_cast(coalesce(argument[6], argument[7]) AS JSON)
    END,
    CASE WHEN argument[8] LIKE '[%' THEN try_cast(argument[8] AS JSON) END,
    CASE WHEN argument[9] LIKE '[%' THEN try_cast(argument[9] AS JSON) END,
    argument[10],
    args
FROM event;
