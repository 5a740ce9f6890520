-- The edits of scenarios: changes to the inputs of the baseline's prediction. Edits being
-- computed are in the variable `edits`; otherwise there are none. Text selects by its
-- pattern (`prediction.edit_pattern`), numbers are `3`, `3..5` or `1,3..5`; NULL selects
-- all.
-- One row per edit.
-- Key: scenario, position.
CREATE VIEW prediction.scenario_edit (
    -- The scenario.
    scenario,
    -- Ordinal of the scenario among all, from 1.
    scenario_position,
    -- Ordinal of the edit in its scenario, from 1.
    position,
    -- What it changes: `host` (time of spans on host threads), `gpu` (time of GPU work),
    -- `op` (all host time and GPU work of ops), `wait` (removes waits), `delay` (between a
    -- cause and the start of its effect) or `profiler` (the profiler's overhead on the
    -- host).
    target,
    -- The type: for `host` the overhead type, for `gpu` the kind of work, for `wait` and
    -- `delay` the kind as in `prediction.edited_wait` and `prediction.edited_delay`; NULL:
    -- all.
    type,
    -- Pattern for the name of the top-level op, the call, the GPU work or, for `op`, any
    -- op.
    name,
    -- Pattern for the name of an enclosing op.
    op,
    -- Pattern for the name of an enclosing user range.
    annotation,
    -- Pattern for an enclosing Python function: as in `staging.python_frame`, or its name.
    function,
    -- Pattern for the dimensions of the arguments of an enclosing op (`staging.op`).
    shape,
    -- Ordinals among the edit's other matches in one step, from 1; of ops, if it selects
    -- ops.
    instance,
    -- Pattern for the path of its module, or of an enclosing module; or the class of one, as
    -- in `question.module_class`.
    module,
    -- Part of ops: `self` (excluding child ops); NULL: all.
    part,
    -- Phase, as in `graph.phase`.
    phase,
    -- Step numbers.
    step,
    -- Ranks.
    rank,
    -- Streams.
    stream,
    -- Devices.
    device,
    -- Pattern for the family of GPU work, see `prediction.kernel_efficiency`.
    family,
    -- Pattern for a collective's process group.
    process_group,
    -- Of a wait for another stream, pattern for the name of the awaited GPU work.
    awaited,
    -- Pattern for the name of an op that encloses its launch.
    awaited_op,
    -- Streams of the awaited GPU work.
    awaited_stream,
    -- Devices of the awaited GPU work.
    awaited_device,
    -- Whether it selects by what is awaited.
    chooses_awaited,
    -- Pattern for the role, the name or the number of the thread.
    thread,
    -- Nodes, as in `graph.node`: GPU work, or whatever starts in the op, call or range.
    nodes,
    -- The action: `scale` (multiplies a time and adds to it), `set` (sets a time to a
    -- value, or to that of another step, rank or run; puts GPU work on another GPU, or
    -- changes its type, batch size or ranks), `ideal` (the mean over all ranks), `remove`
    -- (removes GPU work or host time), `unsync` (removes waits), `fuse` (merges GPU work),
    -- `graph` (launches it as one), `insert` (adds GPU work next to it, or an op next to
    -- ops), `move` (moves GPU work to another stream) or `overlap` (GPU work runs
    -- concurrently until its consumer; host time is done ahead of its thread).
    action,
    -- Factor for the time.
    factor,
    -- [ns] What is added after that.
    add_ns,
    -- [ns] The time it is set to; NULL for other actions.
    set_ns,
    -- Source of the time it is set to (`prediction.set_time`): `step_median` (over all
    -- steps of its trace), `rank_median` or `rank_min` (over all ranks in that step), or
    -- `ideal` (the mean of these; for collectives the median); NULL: none.
    set_to,
    -- The run that the time is taken from: the median over its steps and ranks; NULL: none.
    from_run,
    -- The GPU that GPU work moves to, a row of `prediction.hardware`; NULL: unchanged.
    to_gpu,
    -- New type of its floating-point elements: `fp32`, `tf32`, `bf16`, `fp16` or `fp8`;
    -- NULL: unchanged.
    to_dtype,
    -- New batch size of the tensors of GPU work; NULL: unchanged.
    to_batch,
    -- The recorded batch size; NULL: as far as the recording shows it.
    from_batch,
    -- New number of ranks of the groups of collectives; NULL: unchanged.
    to_ranks,
    -- How many of them a node has; NULL: as many as `prediction.collective_change` says.
    ranks_per_node,
    -- What messages of a GPU reach between nodes, in GB/s; NULL: as listed for the GPU.
    network,
    -- The end of the band that a part of changed work takes, such as `low 1`
    -- (`prediction.band_part`); NULL: none.
    bound,
    -- For removed ops, which of the gaps around them remain: the `longest` of those that
    -- merge (NULL: likewise), or `all`.
    gaps,
    -- Where an insertion goes: `before` or `after`; NULL for other actions.
    place,
    -- [ns] Host time of the insertion; NULL: like the launch next to it. For a graph, the
    -- time of its launch; NULL: as in recorded graphs. For prefetched work, what taking it
    -- costs the thread; NULL: nothing.
    host_ns,
    -- [ns] Duration of the inserted GPU work; for fused work, of the fused kernel.
    gpu_ns,
    -- [ns] For a graph, the time between work on a stream; NULL: as in recorded graphs.
    gap_ns,
    -- The stream of the same device that GPU work moves to; for overlapped work, NULL: a
    -- new one.
    to_stream,
    -- Pattern for the op or user range that consumes overlapped GPU work; NULL: as data
    -- edges show.
    until,
    -- Workers that do overlapped host time ahead of the thread.
    workers,
    -- How far ahead each of these works before its results are taken.
    ahead
) AS
SELECT
    edit.scenario,
    dense_rank() OVER (ORDER BY first_ordinal),
    row_number() OVER (PARTITION BY edit.scenario ORDER BY ordinal),
    edit.target, edit.type, edit.name, edit.op, edit.annotation, edit.function,
    edit.shape, edit.instance, edit.module, edit.part, edit.phase, edit.step, edit.rank,
    edit.stream, edit.device, edit.family, edit.process_group, edit.awaited,
    edit.awaited_op, edit.awaited_stream, edit.awaited_device,
    coalesce(edit.awaited, edit.awaited_op, edit.awaited_stream, edit.awaited_device)
    IS NOT NULL,
    edit.thread, edit.nodes,
    coalesce(edit.action, CASE edit.target WHEN 'wait' THEN 'unsync' ELSE 'scale' END),
    coalesce(edit.factor, 1), coalesce(edit.add_ns, 0),
    edit.set_ns,
    CASE edit.action WHEN 'ideal' THEN 'ideal' ELSE edit.set_to END,
    edit.from_run,
    edit.to_gpu, edit.to_dtype, edit.to_batch, edit.from_batch, edit.to_ranks,
    edit.ranks_per_node, edit.network, edit.bound,
    edit.gaps, edit.place, edit.host_ns, edit.gpu_ns, edit.gap_ns, edit.to_stream,
    edit.until,
    coalesce(edit.workers, 1), coalesce(edit.ahead, 2)
FROM (
    SELECT
        edit,
        ordinal,
        min(ordinal) OVER (PARTITION BY edit.scenario) AS first_ordinal
    FROM (
        SELECT unnest(edits) AS edit, generate_subscripts(edits, 1) AS ordinal
        FROM (
            SELECT
                getvariable('edits')::STRUCT(
                    scenario VARCHAR, target VARCHAR, type VARCHAR, name VARCHAR, op VARCHAR,
                    annotation VARCHAR, function VARCHAR, shape VARCHAR, instance VARCHAR,
                    module VARCHAR, part VARCHAR, phase VARCHAR, step VARCHAR, rank VARCHAR,
                    stream VARCHAR, device VARCHAR, family VARCHAR, process_group VARCHAR,
                    awaited VARCHAR, awaited_op VARCHAR, awaited_stream VARCHAR,
                    awaited_device VARCHAR, thread VARCHAR, nodes BIGINT[], action VARCHAR,
                    factor DOUBLE, add_ns BIGINT, set_ns BIGINT, set_to VARCHAR,
                    from_run BIGINT, to_gpu VARCHAR, to_dtype VARCHAR, to_batch BIGINT,
                    from_batch BIGINT, to_ranks BIGINT, ranks_per_node BIGINT,
                    network DOUBLE, bound VARCHAR, gaps VARCHAR, place VARCHAR, host_ns BIGINT, gpu_ns BIGINT, gap_ns BIGINT, to_stream BIGINT,
                    until VARCHAR, workers BIGINT, ahead BIGINT
                )[] AS edits
            -- Parts that look for edits are not even planned while there are none.
            WHERE getvariable('edits') IS NOT NULL
        )
    )
);
