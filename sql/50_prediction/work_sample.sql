-- The GPU work of steps that times are taken from, with the properties that identify it,
-- like `overhead.sample` for host time: the op that launched it and its ordinal in the
-- step. Its name does not count: other runs may use other kernels for an op. Work in
-- several steps, as when these overlap, counts in the first.
-- One row per GPU op launched in a step.
-- Key: gpu_op_id.
CREATE VIEW prediction.work_sample (
    -- The GPU op.
    gpu_op_id,
    -- The run.
    run_id,
    -- The trace.
    trace_id,
    -- The step.
    step_id,
    -- Kind of the work.
    kind,
    -- Whether it is a collective.
    is_collective,
    -- Innermost op around its launch; the call if there is none.
    name,
    -- Role of the thread that launched it.
    role,
    -- Ordinal of that op or call among those of its name in the step, from 1.
    ordinal,
    -- Ordinal of the work among the launches of the op or call, from 1.
    part,
    -- [ns] Duration; for a collective in the run, from when all its ranks have started.
    sample_ns
) AS
WITH
first_step AS (
    SELECT gpu_op_id, min(step_id) AS step_id
    FROM staging.step_work
    GROUP BY gpu_op_id
),

launched AS (
    SELECT
        work.gpu_op_id,
        work.run_id,
        work.trace_id,
        step_id,
        work.kind,
        work.is_collective,
        coalesce(op.name, call.name) AS name,
        role,
        coalesce(op.start_ns, call.start_ns) AS named_start_ns,
        coalesce(op.op_id, call.call_id) AS named_id,
        call.start_ns AS launch_start_ns,
        work.start_ns,
        coalesce(absent_waiting_ns + moving_ns, work.end_ns - work.start_ns) AS sample_ns
    FROM first_step
    INNER JOIN staging.gpu_op AS work USING (gpu_op_id)
    INNER JOIN staging.call AS call ON work.call_id = call.call_id
    INNER JOIN staging.thread AS thread ON call.thread_id = thread.thread_id
    LEFT JOIN staging.op AS op ON work.op_id = op.op_id
    LEFT JOIN graph.collective AS collective ON work.gpu_op_id = collective.node_id
)

SELECT
    gpu_op_id,
    run_id,
    trace_id,
    step_id,
    kind,
    is_collective,
    name,
    role,
    dense_rank() OVER (
        PARTITION BY step_id, role, name ORDER BY named_start_ns, named_id
    ),
    row_number() OVER (
        PARTITION BY step_id, named_id, name
        ORDER BY launch_start_ns, start_ns, gpu_op_id
    ),
    sample_ns
FROM launched;
