-- The edits of scenarios: what is changed in what the baseline predicts with. Those that
-- are computed now are in the variable `edits`; a database at rest has none. A text chooses
-- by its pattern (`prediction.edit_pattern`), a number is `3`, `3..5` or `1,3..5`; NULL: all.
-- One row per edit.
-- Key: scenario, position.
CREATE VIEW prediction.scenario_edit (
    -- The scenario.
    scenario,
    -- Ordinal of the scenario among all, from 1.
    scenario_position,
    -- Ordinal of the edit in its scenario, from 1.
    position,
    -- What it changes: `host` (time of spans on host threads), `gpu` (time of GPU work), `op`
    -- (all host time and GPU work of ops), `wait` (removes waits), `delay` (between a cause and
    -- what it lets begin) or `profiler` (what recording events costs the host).
    target,
    -- Which of these: of `host` the overhead type, of `gpu` the kind of work, of `wait` and
    -- `delay` the kind as in `prediction.edited_wait` and `prediction.edited_delay`; NULL: all.
    type,
    -- Pattern of the name of the top-level op, the call, the GPU work or, of `op`, any op.
    name,
    -- Pattern of the name of an op around it.
    op,
    -- Pattern of the name of a user range around it.
    annotation,
    -- Pattern of the dimensions of the arguments of an op around it (`staging.op`).
    shape,
    -- Ordinals among what the edit matches otherwise in one step, from 1: of ops, where it
    -- chooses ops.
    instance,
    -- Pattern of the path of the module that it is for, or of one around that.
    module,
    -- Of ops, what of them: `self` (what they do but for the ops in them); NULL: all.
    part,
    -- Phase, as in `graph.phase`.
    phase,
    -- Numbers of steps.
    step,
    -- Ranks.
    rank,
    -- Streams.
    stream,
    -- Devices.
    device,
    -- Pattern of the family of GPU work, see `prediction.kernel_efficiency`.
    family,
    -- Pattern of a collective's process group.
    process_group,
    -- Pattern of the role, the name or the number of the thread.
    thread,
    -- Nodes, as in `graph.node`: GPU work, or what begins in the op, call or range.
    nodes,
    -- What is done to it: `scale` (a time is multiplied and added to), `set` (it is what is
    -- said, or what others take; GPU work is on another GPU, of another type, or of another batch size), `ideal` (what the same takes in all ranks), `remove` (GPU work, or host time, is not there), `unsync` (waits are not),
    -- `fuse` (GPU work becomes one), `graph` (it is launched as one), `insert` (GPU work is
    -- put beside it, or an op beside ops), `move` (GPU work is on another stream) or `overlap`
    -- (GPU work runs beside others until what takes it; host time ahead of its thread).
    action,
    -- What the time is multiplied by.
    factor,
    -- [ns] What is then added to it.
    add_ns,
    -- [ns] What it is set to; NULL by other actions.
    set_ns,
    -- Whose time it is set to (`prediction.set_time`): `step_median` (the same in all steps of
    -- its trace), `rank_median` or `rank_min` (in that step of all ranks), or `ideal` (the mean
    -- of these; of collectives the median); NULL: nobody's.
    set_to,
    -- The run whose time it is set to: the median over its steps and ranks; NULL: none's.
    from_run,
    -- The GPU that GPU work is put on, a row of `prediction.hardware`; NULL: its own.
    to_gpu,
    -- Type that its floating-point elements become: `fp32`, `tf32`, `bf16`, `fp16` or `fp8`;
    -- NULL: theirs.
    to_dtype,
    -- The batch size that tensors of GPU work then have; NULL: theirs.
    to_batch,
    -- The batch size that they were recorded with; NULL: as far as the recording tells.
    from_batch,
    -- Of removed ops, which of the gaps around them stay: the `longest` of those that become
    -- one (NULL: likewise), or `all`.
    gaps,
    -- Where what is inserted comes: `before` or `after`; NULL by other actions.
    place,
    -- [ns] What is inserted: the host time for it; NULL: as the launch that it is put
    -- beside. Of a graph that of its launch; NULL: as in recorded graphs. Of what is fetched
    -- ahead what taking it costs the thread; NULL: nothing.
    host_ns,
    -- [ns] Likewise the duration of the GPU work; of fused work that of all.
    gpu_ns,
    -- [ns] Of a graph, the time between work on a stream; NULL: as in recorded graphs.
    gap_ns,
    -- The stream, of the same device, that GPU work is moved to; of overlapped work NULL: a
    -- new one.
    to_stream,
    -- Pattern of the op or user range that takes what overlapped GPU work gives; NULL: as data
    -- edges say.
    until,
    -- Workers that do overlapped host time ahead of the thread.
    workers,
    -- How many times each of these does so before what it did is taken.
    ahead
) AS
SELECT
    edit.scenario,
    dense_rank() OVER (ORDER BY first_ordinal),
    row_number() OVER (PARTITION BY edit.scenario ORDER BY ordinal),
    edit.target,
    edit.type,
    edit.name,
    edit.op,
    edit.annotation,
    edit.shape,
    edit.instance,
    edit.module,
    edit.part,
    edit.phase,
    edit.step,
    edit.rank,
    edit.stream,
    edit.device,
    edit.family,
    edit.process_group,
    edit.thread,
    edit.nodes,
    coalesce(edit.action, CASE edit.target WHEN 'wait' THEN 'unsync' ELSE 'scale' END),
    coalesce(edit.factor, 1),
    coalesce(edit.add_ns, 0),
    edit.set_ns,
    CASE edit.action WHEN 'ideal' THEN 'ideal' ELSE edit.set_to END,
    edit.from_run,
    edit.to_gpu,
    edit.to_dtype,
    edit.to_batch,
    edit.from_batch,
    edit.gaps,
    edit.place,
    edit.host_ns,
    edit.gpu_ns,
    edit.gap_ns,
    edit.to_stream,
    edit.until,
    coalesce(edit.workers, 1),
    coalesce(edit.ahead, 2)
FROM (
    SELECT
        edit,
        ordinal,
        min(ordinal) OVER (PARTITION BY edit.scenario) AS first_ordinal
    FROM (
        SELECT
            unnest(edits) AS edit,
            generate_subscripts(edits, 1) AS ordinal
        FROM (
            SELECT
                getvariable('edits')::STRUCT(
                    scenario VARCHAR, target VARCHAR, type VARCHAR, name VARCHAR,
                    op VARCHAR, annotation VARCHAR, shape VARCHAR, instance VARCHAR,
                    module VARCHAR, part VARCHAR, phase VARCHAR, step VARCHAR, rank VARCHAR,
                    stream VARCHAR, device VARCHAR, family VARCHAR, process_group VARCHAR,
                    thread VARCHAR,
                    nodes BIGINT[], action VARCHAR, factor DOUBLE, add_ns BIGINT,
                    set_ns BIGINT, set_to VARCHAR, from_run BIGINT, to_gpu VARCHAR,
                    to_dtype VARCHAR, to_batch BIGINT, from_batch BIGINT, gaps VARCHAR, place VARCHAR,
                    host_ns BIGINT, gpu_ns BIGINT, gap_ns BIGINT, to_stream BIGINT,
                    until VARCHAR, workers BIGINT, ahead BIGINT
                )[] AS edits
            -- What looks for edits is not even planned while there are none.
            WHERE getvariable('edits') IS NOT NULL
        )
    )
);
